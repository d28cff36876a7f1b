"""What is usual in which kind of directory. A preset only fills in what is not set."""

from collections.abc import Mapping
from typing import Any, Final, Literal

Preset = Literal["openldap", "389ds", "freeipa", "active_directory", "posix"]

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "openldap": {
        "user_filter": "(&(objectClass=inetOrgPerson)(uid={user}))",
        "groups_from": "member_dn",
        "group_filter": "(objectClass=groupOfNames)",
        "member_attribute": "member",
    },
    "389ds": {
        "user_filter": "(&(objectClass=person)(uid={user}))",
        "groups_from": "member_dn",
        "group_filter": "(|(objectClass=groupOfNames)(objectClass=groupOfUniqueNames))",
        "member_attribute": ("member", "uniqueMember"),
    },
    "freeipa": {
        "user_filter": "(&(objectClass=posixAccount)(uid={user}))",
        # FreeIPA writes nested memberships into memberOf, beside roles and rules.
        "groups_from": "member_of",
        "group_filter": "(objectClass=ipaUserGroup)",
    },
    "active_directory": {
        "user_filter": ("(&(objectCategory=person)(objectClass=user)(sAMAccountName={user}))"),
        "user_match": "casefold",
        "groups_from": "member_of",
        "group_filter": "(objectClass=group)",
        "member_attribute": "member",
        "primary_group": "active_directory",
    },
    "posix": {
        "user_filter": "(&(objectClass=posixAccount)(uid={user}))",
        "groups_from": "member_uid",
        "group_filter": "(objectClass=posixGroup)",
        "member_attribute": "memberUid",
        "primary_group": "gid_number",
    },
}
