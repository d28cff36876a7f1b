"""Groups from an LDAP directory: OpenLDAP, 389-DS, FreeIPA, Active Directory.

resolver      the resolver as the rest of the server knows it
options       the settings, checked without the network; defaults from presets and YuniKorn's Secret
fields        the types of these settings
driver        whether python-ldap can be loaded, and does what the settings need
directory     one lookup: which server, what is retried
pool          the servers, failover and fail-back; a connection to each, kept in the background
bind          opening a bound connection; kerberos_child is a program that binds with a ticket
bridge        TCP, StartTLS, TLS, and the bytes between them and libldap
messages      the messages of a server, cut from the stream and checked
certificates  advice on invalid certificates
long_work     the steps of long work, and the rests between them
connection    many requests at once on one connection, each with a time limit
pending       the requests in flight, which messages may answer them, and how much they may bring
entry         an entry, and what a server may send for its attributes
search        the searches of one lookup: bases, limits, pages, ranges
user_lookup   the entry of a user, and the list of all users
schema        whether the directory knows the attributes of the settings
notes         what `ldap-check` says besides the groups
dn            distinguished names, compared; which of them a search may return
group_kind    groups that are found in one way: their filters and names
group_lookup  the groups of a user: memberOf, searches, nested groups
member_lookup the users of groups: the same in reverse
"""
