"""Constants of the product that tests change in their own process."""

import importlib
from collections.abc import Mapping
from typing import Any, Final

import pytest

_POOL: Final = "resolvers.ldap.pool"
LDAP: Final = {
    "auth_retry_after": f"{_POOL}.REJECTED_SECONDS",
    "changes_interval": "resolvers.ldap.dirsync_follower.CHANGES_SECONDS",
    "fail_back_after": f"{_POOL}.FAIL_BACK_SECONDS",
    "idle_timeout": f"{_POOL}.IDLE_SECONDS",
    "keepalive_interval": f"{_POOL}.KEEPALIVE_SECONDS",
    "max_age": f"{_POOL}.MAX_AGE_SECONDS",
    "max_queued": "resolvers.ldap.ldap_connection.MAX_QUEUED",
    "retry_after": f"{_POOL}.RETRY_SECONDS",
}
"""Constants of the resolver for LDAP, by the name with which tests give them."""
PROVIDERS: Final = {
    "entra": "resolvers.entra.tenant",
    "keycloak": "resolvers.keycloak.realm",
    "okta": "resolvers.okta.organization",
}


def of_provider(resolver_type: str) -> Mapping[str, str]:
    """Return constants of an identity provider's resolver, by the name in tests."""
    module = PROVIDERS[resolver_type]
    more = {"repeat_after": f"{module}.REPEAT_SECONDS"} if resolver_type == "entra" else {}
    return {
        "changes_interval": f"{module}.CHANGES_SECONDS",
        "connect_timeout": "rest.rest_client.CONNECT_SECONDS",
        "max_connections": "rest.rest_client.MAX_CONNECTIONS",
        "page_size": f"{module}.PAGE_SIZE",
        **more,
    }


def take_constants(
    given: Mapping[str, Any], constants: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Give constants the values that stand among options; return the options without them.

    Args:
        given: Options of a resolver, and values of constants.
        constants: The module and name of each constant below `queuegate_server.identity`, by the
            name with which it is given.
        monkeypatch: Restores the constants at the end of the test.
    """
    for key in constants.keys() & given:
        module, _, name = constants[key].rpartition(".")
        found = importlib.import_module(f"queuegate_server.identity.{module}")
        assert hasattr(found, name), name
        monkeypatch.setattr(found, name, given[key])
    return {key: value for key, value in given.items() if key not in constants}
