"""Groups from an LDAP directory: OpenLDAP, 389-DS, FreeIPA, Active Directory.

settings     options, defaults, fields, driver
lookups      resolver, directory, user_lookup, account_state, group_lookup, member_lookup,
             group_kind, entry, dn
requests     search, connection, pending
connections  pool, bind, kerberos_child, bridge, messages
ldap-check   schema, notes, rights_notes
"""
