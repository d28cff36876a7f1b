"""Realms of Keycloak, as its administrator writes them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trustme

from tests.support.fakes.rest_api import ca_file, secret_file
from tests.support.servers.keycloak import Keycloak

CLIENT = "queuegate"
SECRET = "s3cret-of-the-client"
RIGHTS = ("view-users",)


def client(name: str, rights: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a client and the user of its service account, with roles of realm-management."""
    return (
        {
            "clientId": name,
            "secret": SECRET,
            "publicClient": False,
            "serviceAccountsEnabled": True,
            "standardFlowEnabled": False,
        },
        {
            "username": f"service-account-{name}",
            "enabled": True,
            "serviceAccountClientId": name,
            "clientRoles": {"realm-management": list(rights)},
        },
    )


def group(name: str, *below: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "subGroups": list(below)}


def user(name: str, *groups: str, **more: Any) -> dict[str, Any]:
    return {"username": name, "enabled": True, "groups": list(groups), **more}


def realm(
    name: str,
    groups: Sequence[Mapping[str, Any]],
    users: Sequence[Mapping[str, Any]],
    rights: Sequence[str] = RIGHTS,
) -> dict[str, Any]:
    """Return a realm with a client of queuegate, and others that may less.

    The tokens of `narrow` have no role, because it does not have the full scope; those of `scoped`
    have the role that its scope lists.
    """
    made = {
        CLIENT: client(CLIENT, rights),
        **{
            f"only-{role}": client(f"only-{role}", [role])
            for role in ("query-users", "query-groups")
        },
        **{each: client(each, rights) for each in ("narrow", "scoped")},
    }
    for each in ("narrow", "scoped"):
        made[each][0]["fullScopeAllowed"] = False
    return {
        "realm": name,
        "enabled": True,
        "clients": [each for each, _ in made.values()],
        "clientScopeMappings": {
            "realm-management": [{"client": "scoped", "roles": list(rights)}],
        },
        "groups": list(groups),
        "users": [*users, *(account for _, account in made.values())],
    }


def settings(folder: Path, server: Keycloak, ca: trustme.CA, realm: str) -> dict[str, Any]:
    """Return the settings of a resolver."""
    return {
        "url": server.url,
        "ca_file": ca_file(folder, ca),
        "realm": realm,
        "client_id": CLIENT,
        "client_secret_file": secret_file(folder, SECRET),
        # A busy machine must not decide the outcome.
        "request_timeout": 30,
        "lookup_timeout": 60,
    }
