"""A directory in which sue is in the group staff, and the settings of a resolver that asks it."""

from typing import Any

from tests.support.fakes.ldap_server import Answer, Search

OPTIONS = {
    "start_tls": False,
    "bind": "anonymous",
    "user_base": "ou=people,dc=example",
    "group_base": "ou=groups,dc=example",
    # A busy machine must not decide the outcome.
    "connect_timeout": 30,
    "operation_timeout": 30,
    "lookup_timeout": 60,
}


def answer(search: Search) -> Answer:
    if "(member=" in search.filter:
        return Answer([("cn=staff,ou=groups,dc=example", {"cn": [b"staff"]})])
    return Answer([("uid=sue,ou=people,dc=example", {"uid": [b"sue"]})])


def options(url: str) -> dict[str, Any]:
    """Return the settings for the directory at an address."""
    return {"urls": [url], **OPTIONS}
