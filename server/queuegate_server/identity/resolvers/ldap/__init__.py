"""Groups from an LDAP directory: OpenLDAP, 389-DS, FreeIPA, Active Directory.

resolver    what the rest of the server sees; imports the driver in `open`
options     what can be set, checked without the driver
strategies  where groups come from: memberOf, a group search, nesting
search      one search: escaping, bounds, paging, ranges
servers     which server is asked; failover and fail-back
server      one server's connection, kept in the background
connection  many requests at once on one connection, each with a time limit
transport   TCP, StartTLS, TLS and the hand-over to libldap
"""
