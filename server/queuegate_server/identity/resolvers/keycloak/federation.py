"""How old the groups of a federated user may be when Keycloak returns them.

Keycloak caches users of a user federation, such as an LDAP directory, according to the federation's
cache policy, and records no admin event when the directory changes, or when it synchronizes by
itself. The settings are described in Keycloak's Server Administration Guide, "User Storage
Federation".
"""

from collections.abc import Mapping
from typing import Any, Final

_LIFESPAN: Final = "MAX_LIFESPAN"
_MODES: Final = "READ_ONLY or LDAP_ONLY"
"""The modes of a group mapper in which groups stay in the directory. With IMPORT, Keycloak copies
them, and keeps the copy.
"""
_BOUNDED: Final[Mapping[str, str]] = {
    "NO_CACHE": "does not cache its users",
    "EVICT_DAILY": "caches its users for up to a day",
    "EVICT_WEEKLY": "caches its users for up to a week",
}
"""What Keycloak does under each cache policy."""


def federation_of(user: Mapping[str, Any]) -> str | None:
    """Return the ID of the federation that a user comes from; None for the realm's own users."""
    link = user.get("federationLink")
    if isinstance(link, str) and link:
        return link
    kind, _, rest = str(user.get("id")).partition(":")
    return rest.partition(":")[0] or None if kind == "f" else None


def federation_note(component: Mapping[str, Any] | None) -> str:
    """Return a note for an administrator about a federated user.

    Args:
        component: The federation's settings, as the API returns them; None if the client may not
            read them.
    """
    if component is None:
        return (
            "the user comes from a user federation: check that its cache policy is NO_CACHE or "
            f"{_LIFESPAN}, and the mode of its group mapper {_MODES}, because otherwise Keycloak "
            "may keep returning old groups indefinitely (with the view-realm role of "
            "realm-management, source-check reads the policy)"
        )
    name = str(component.get("name"))[:200]
    policy = _setting(component, "cachePolicy") or "DEFAULT"
    lifespan, period = _setting(component, "maxLifespan"), _setting(component, "fullSyncPeriod")
    if policy == _LIFESPAN and lifespan.isdecimal():
        seconds = int(lifespan[:15]) / 1000
        does = f"caches its users for up to {seconds:g} s" if seconds else _BOUNDED["NO_CACHE"]
    elif policy in _BOUNDED:
        does = _BOUNDED[policy]
    elif period.isdecimal() and int(period[:15]) > 0:  # -1: never
        does = f"caches its users until the next full synchronization, every {period[:15]} s"
    else:
        return (
            f"the user comes from the user federation {name!r}, whose cache policy is "
            f"{policy[:40]}: Keycloak may keep returning deleted users, and groups that its "
            f"directory has removed, indefinitely (set the policy to {_LIFESPAN}, with a Max "
            "lifespan, or to NO_CACHE)"
        )
    return (
        f"the user comes from the user federation {name!r}: Keycloak {does} (cache policy "
        f"{policy}), and queuegate then keeps their groups for positive_ttl, provided that the "
        f"mode of the group mapper is {_MODES}"
    )


def _setting(component: Mapping[str, Any], key: str) -> str:
    """Return a setting of a component. Keycloak stores each setting as a list of values."""
    config = component.get("config")
    values = config.get(key) if isinstance(config, dict) else None
    return str(values[0]) if isinstance(values, list) and values else ""
