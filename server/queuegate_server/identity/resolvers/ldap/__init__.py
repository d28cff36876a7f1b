"""Groups from an LDAP directory: OpenLDAP, 389-DS, FreeIPA, Active Directory.

resolver      the resolver as the rest of the server knows it
options       the settings, checked without the network; defaults from presets and YuniKorn's Secret
fields        the types of these settings
driver        whether python-ldap can be loaded, and does what the settings need
directory     one lookup: which server, which user, what is repeated
pool          the servers, failover and fail-back; a connection to each, kept in the background
bind          opening a bound connection; kerberos_child is a program that binds by a ticket
bridge        TCP, StartTLS, TLS, and the bytes between them and libldap
messages      the messages of a server, cut from the stream and checked
certificates  advice on certificates that are not valid
connection    many requests at once on one connection, each with a time limit
pending       the requests in flight, and which messages may answer them
allowance     how much the answers to a lookup may bring
search        one search: limits, pages, ranges
user_search   the entries of users, below all DNs of `user_base`
schema        whether the directory knows the attributes of the settings
notes         what `ldap-check` says beside the groups
dn            distinguished names, compared; which of them a search may return
group_kind    groups that are found in one way: their filters and names
group_lookup  the groups of a user: memberOf, searches, nested groups
member_lookup the users of groups: the same backwards
"""
