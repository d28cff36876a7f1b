"""Groups from an LDAP directory: OpenLDAP, 389-DS, FreeIPA, Active Directory.

resolver      the resolver's interface to the rest of the server
options       the settings, checked without network access
defaults      default settings from presets and YuniKorn's Secret
fields        validated types for the settings
driver        checks that python-ldap and the libraries needed by the settings are installed
directory     looks up users: chooses a server, and retries
pool          the servers: background connections, failover, failback
bind          opens and binds connections; runs kerberos_child for Kerberos binds
bridge        TCP, StartTLS and TLS; relays data between the server and libldap
messages      splits the server's stream into messages and checks them
certificates  trusted authorities, and advice on invalid certificates
long_work     splits long processing into short steps with pauses
connection    concurrent requests on one connection, each with a time limit
pending       requests in flight, and limits on their responses
entry         entries, and checks of their attributes
search        the searches of one lookup: bases, limits, pages, ranges
user_lookup   looks up a user's entry, and lists all users
schema        checks that the directory has the attributes named in the settings
notes         hints on possible misconfigurations for `ldap-check`
dn            parses and compares distinguished names; search bases
group_kind    search filters and names for one kind of group
group_lookup  looks up a user's groups, using memberOf and searches, including nested groups
member_lookup looks up a group's members
"""
