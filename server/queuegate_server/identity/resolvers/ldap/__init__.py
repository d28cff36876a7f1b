"""Groups from an LDAP directory: OpenLDAP, 389-DS, FreeIPA, Active Directory.

A lookup goes down this list, and its answer comes back up. Each module calls those indented below
it. The right column says what a module refuses, and where it limits bytes.

ldap_resolver          names that no user can have
  pool                 everything while no server is connected; retries once, on another server
  user_lookup          several entries with one name, entries outside user_base
    account_state      disabled and expired accounts
    group_lookup       more than max_groups, a primary group that is missing or not the only one
    name_search        names that several groups have
      search           truncated results, pages that were not requested, attributes of other names
        ldap_connection  more requests than max_in_flight and 1024 more; a silent server
          bridge         256 KiB before the bind; pauses the server while it is ahead of us
            ldap_messages  64 MiB for one message, 64 KiB if it is not an entry; entries with more
                           than 1,000 attributes; what is not RFC 4511
            pending        answers to no request; 16 MiB for a lookup, 64 MiB for a listing (both
                           less if few entries are expected), 64 MiB for all incomplete answers;
                           it words all these refusals

`ldap_connection` gives requests to libldap (python-ldap), which writes them into one end of a
socket pair. `bridge` has the other end and sends them on, because asyncio handles TCP and TLS:
libldap cannot bound the time of a handshake. An answer returns the same way. `bridge` forwards to
libldap only messages that `ldap_messages` and `pending` have passed, because libldap mistakes
wrong answers for empty ones; `ldap_connection` fetches the decoded entries from libldap, and wakes
the lookup.

connecting    bind (within connect_timeout), dialer (TCP, TLS), discovery (DNS), kerberos_child
following     sync_follower (RFC 4533) or dirsync_follower (Active Directory); followed_messages and
              sync_messages decode what bypasses libldap; sync_changes keeps up to 256 MiB of
              members and finds who is affected; change_reporter reports them, with the positions
              of change_positions
listing       member_lookup (groups), member_users (the users among their members)
source-check  examination, rights_notes, and schema, which lookups without a result also query
settings      ldap_options, defaults (presets and YuniKorn's Secret), option_types, filter_syntax,
              driver_check
shared        entries (attributes, DNs, kinds of groups), filters (how users and groups are found),
              ldap_faults (what is refused), timed_steps (and their counters), ldap_statistics, ber
"""
