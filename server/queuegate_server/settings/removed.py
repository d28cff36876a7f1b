"""The settings and options that no longer exist, for error messages and the reference page.

A setting that nobody had a reason to change is a constant now, with its reason, in the module that
uses it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

NAME: Final = "NAME"
"""Stands for a name of the user's choice."""


class RemovedSetting(NamedTuple):
    """A key that the settings no longer have."""

    key: str
    """The path of the key."""
    value: str
    """What always applies now; empty if another setting decides."""
    instead: str
    """What to do for those who have set the key."""
    constant: str = ""
    """The constant with the value: its module and name."""
    resolver_type: str = ""
    """The only type of resolver that had the key; empty for all types and all other sections."""


SETTINGS: Final = (
    RemovedSetting(
        "unix_socket_mode",
        "0660",
        "set mode in the section of a Unix socket in listen",
        "server.listeners.UNIX_SOCKET_MODE",
    ),
    RemovedSetting(
        "worker_timeout",
        "30s",
        "nothing",
        "supervisor.supervisor.WORKER_TIMEOUT_SECONDS",
    ),
    RemovedSetting(
        "limits.max_wait",
        "100ms",
        "against overload, lower limits.max_concurrent_calls or set limits.caller_rate",
        "throttling.MAX_WAIT_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.handshake_timeout",
        "10s",
        "nothing",
        "transports.grpcio.HANDSHAKE_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.transfer_timeout",
        "10s",
        "send fewer questions in a batch if the network is slow",
        "transports.stalls.TRANSFER_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.max_metadata",
        "16KiB",
        "remove headers in the proxy that adds them",
        "transports.grpcio.MAX_METADATA",
    ),
    RemovedSetting(
        "limits.connections.max_age_grace",
        "30s",
        "nothing",
        "transports.grpcio.MAX_AGE_GRACE_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.keepalive_interval",
        "2m",
        "let the client ping more often, at most once a minute",
        "transports.grpcio.KEEPALIVE_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.keepalive_timeout",
        "20s",
        "nothing",
        "transports.grpcio.PING_TIMEOUT_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.min_ping_interval",
        "1m",
        "let the client ping less often",
        "transports.grpcio.MIN_PING_SECONDS",
    ),
    RemovedSetting(
        "limits.connections.max_ping_strikes",
        "2",
        "let the client ping less often",
        "transports.grpcio.MAX_PING_STRIKES",
    ),
    RemovedSetting(
        "resolvers.NAME.refresh_rate",
        "500",
        "to ask a source less often, raise cache.positive_ttl of its partitions",
        "identity.guarded_resolver.REFRESH_RATE",
    ),
    RemovedSetting(
        "resolvers.NAME.max_waiting",
        "10000",
        "to refuse lookups sooner, lower lookup_timeout",
        "identity.guarded_resolver.MAX_WAITING",
    ),
    RemovedSetting(
        "resolvers.NAME.breaker_failures",
        "5",
        "nothing",
        "identity.guarded_resolver.BREAKER_FAILURES",
    ),
    RemovedSetting(
        "resolvers.NAME.breaker_pause",
        "1s",
        "nothing",
        "identity.guarded_resolver.BREAKER_PAUSE_SECONDS",
    ),
    RemovedSetting(
        "partitions.NAME.cache.stale_wait",
        "250ms",
        "nothing",
        "identity.group_resolver.STALE_WAIT_SECONDS",
    ),
    RemovedSetting(
        "resolvers.NAME.connect_timeout",
        "2s",
        "set request_timeout, which includes the connection",
        "identity.rest.rest_client.CONNECT_SECONDS",
        "entra",
    ),
    RemovedSetting(
        "resolvers.NAME.connect_timeout",
        "2s",
        "set request_timeout, which includes the connection",
        "identity.rest.rest_client.CONNECT_SECONDS",
        "keycloak",
    ),
    RemovedSetting(
        "resolvers.NAME.connect_timeout",
        "2s",
        "set request_timeout, which includes the connection",
        "identity.rest.rest_client.CONNECT_SECONDS",
        "okta",
    ),
    RemovedSetting(
        "resolvers.NAME.max_connections",
        "32",
        "to ask the provider less, lower max_concurrent",
        "identity.rest.rest_client.MAX_CONNECTIONS",
        "entra",
    ),
    RemovedSetting(
        "resolvers.NAME.max_connections",
        "32",
        "to ask the provider less, lower max_concurrent",
        "identity.rest.rest_client.MAX_CONNECTIONS",
        "keycloak",
    ),
    RemovedSetting(
        "resolvers.NAME.max_connections",
        "32",
        "to ask the provider less, lower max_concurrent",
        "identity.rest.rest_client.MAX_CONNECTIONS",
        "okta",
    ),
    RemovedSetting(
        "resolvers.NAME.auth_retry_after",
        "1m",
        "replace the file of the credentials, which counts at once",
        "identity.rest.access_tokens.REJECTED_SECONDS",
        "entra",
    ),
    RemovedSetting(
        "resolvers.NAME.auth_retry_after",
        "1m",
        "replace the file of the credentials, which counts at once",
        "identity.rest.access_tokens.REJECTED_SECONDS",
        "keycloak",
    ),
    RemovedSetting(
        "resolvers.NAME.auth_retry_after",
        "1m",
        "replace the file of the credentials, which counts at once",
        "identity.rest.access_tokens.REJECTED_SECONDS",
        "okta",
    ),
    RemovedSetting(
        "resolvers.NAME.changes_interval",
        "10s",
        "nothing",
        "identity.resolvers.entra.tenant.CHANGES_SECONDS",
        "entra",
    ),
    RemovedSetting(
        "resolvers.NAME.repeat_after",
        "1m",
        "nothing",
        "identity.resolvers.entra.tenant.REPEAT_SECONDS",
        "entra",
    ),
    RemovedSetting(
        "resolvers.NAME.page_size",
        "999",
        "nothing",
        "identity.resolvers.entra.tenant.PAGE_SIZE",
        "entra",
    ),
    RemovedSetting(
        "resolvers.NAME.changes_interval",
        "5s",
        "nothing",
        "identity.resolvers.keycloak.realm.CHANGES_SECONDS",
        "keycloak",
    ),
    RemovedSetting(
        "resolvers.NAME.page_size",
        "500",
        "nothing",
        "identity.resolvers.keycloak.realm.PAGE_SIZE",
        "keycloak",
    ),
    RemovedSetting(
        "resolvers.NAME.changes_interval",
        "10s",
        "nothing",
        "identity.resolvers.okta.organization.CHANGES_SECONDS",
        "okta",
    ),
    RemovedSetting(
        "resolvers.NAME.page_size",
        "200",
        "nothing",
        "identity.resolvers.okta.organization.PAGE_SIZE",
        "okta",
    ),
    RemovedSetting(
        "resolvers.NAME.changes_interval",
        "5s",
        "nothing",
        "identity.resolvers.ldap.dirsync_follower.CHANGES_SECONDS",
        "ldap",
    ),
    RemovedSetting(
        "resolvers.NAME.max_queued",
        "1024",
        "to send a directory fewer requests, lower max_concurrent",
        "identity.resolvers.ldap.ldap_connection.MAX_QUEUED",
        "ldap",
    ),
    RemovedSetting(
        "resolvers.NAME.max_age",
        "15m",
        "nothing",
        "identity.resolvers.ldap.pool.MAX_AGE_SECONDS",
        "ldap",
    ),
    RemovedSetting(
        "resolvers.NAME.idle_timeout",
        "5m",
        "nothing",
        "identity.resolvers.ldap.pool.IDLE_SECONDS",
        "ldap",
    ),
    RemovedSetting(
        "resolvers.NAME.keepalive_interval",
        "30s",
        "nothing",
        "identity.resolvers.ldap.pool.KEEPALIVE_SECONDS",
        "ldap",
    ),
    RemovedSetting(
        "resolvers.NAME.retry_after",
        "1s",
        "nothing",
        "identity.resolvers.ldap.pool.RETRY_SECONDS",
        "ldap",
    ),
    RemovedSetting(
        "resolvers.NAME.fail_back_after",
        "30s",
        "nothing",
        "identity.resolvers.ldap.pool.FAIL_BACK_SECONDS",
        "ldap",
    ),
    RemovedSetting(
        "resolvers.NAME.auth_retry_after",
        "1m",
        "replace the file of the password, which counts at once",
        "identity.resolvers.ldap.pool.REJECTED_SECONDS",
        "ldap",
    ),
    RemovedSetting(
        "resolvers.NAME.threads", "", "set max_concurrent, which counts for threads, too", "", "os"
    ),
)


def removed_setting(keys: Sequence[str | int], resolver_type: str) -> RemovedSetting | None:
    """Return what is known about the key at a path, if it is one that was removed.

    Args:
        keys: The path of the key.
        resolver_type: The type of the resolver that has the key; empty for any other section.
    """
    for each in SETTINGS:
        if each.resolver_type in {"", resolver_type} and _matches(each.key.split("."), keys):
            return each
    return None


def _matches(pattern: Sequence[str], keys: Sequence[str | int]) -> bool:
    return len(pattern) == len(keys) and all(
        wanted in {NAME, key} for wanted, key in zip(pattern, keys, strict=True)
    )


def explained(removed: RemovedSetting) -> tuple[str, str]:
    """Return the message and the remedy for a file that still has a key."""
    remedy = "delete the key"
    if removed.instead != "nothing":
        remedy += f"; instead, {removed.instead}"
    always = f": {removed.value} always applies" if removed.value else ""
    return f"this setting was removed{always}", remedy
