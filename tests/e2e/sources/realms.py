"""Realms of Keycloak, as its administrator writes them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trustme

from tests.support.fakes.rest_api import PATIENT, ca_file, secret_file
from tests.support.servers.keycloak import Keycloak

CLIENT = "queuegate"
SECRET = "s3cret-of-the-client"
RIGHTS = ("view-users", "query-groups")


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
    """Return a realm with a client of queuegate, and one that may only query users."""
    ours, account = client(CLIENT, rights)
    weak, weak_account = client("weak", ["query-users"])
    return {
        "realm": name,
        "enabled": True,
        "clients": [ours, weak],
        "groups": list(groups),
        "users": [*users, account, weak_account],
    }


def settings(folder: Path, server: Keycloak, ca: trustme.CA, realm: str) -> dict[str, Any]:
    """Return the settings of a resolver."""
    return {
        "url": server.url,
        "ca_file": ca_file(folder, ca),
        "realm": realm,
        "client_id": CLIENT,
        "client_secret_file": secret_file(folder, SECRET),
        **PATIENT,
    }
