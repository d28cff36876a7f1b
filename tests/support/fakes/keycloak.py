"""What Keycloak 26 answers to the requests of the resolver, from a realm in memory.

`tests/e2e/sources` asks a real Keycloak the same.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.support.fakes.rest_api import Reply, Request

CLIENT = "queuegate"
SECRET = "s3cret-of-the-client"
TOKEN = "token-of-the-client"
API = "/admin/realms/corp"


def settings(url: str) -> dict[str, Any]:
    """Return the settings of a resolver, without those of its secret and of TLS."""
    return {"url": url, "realm": "corp", "client_id": CLIENT}


@dataclass
class User:
    groups: list[str] = field(default_factory=list)
    """The paths of the groups."""
    enabled: bool = True
    email: str = ""
    verified: bool = True
    attributes: dict[str, list[str]] = field(default_factory=dict)
    key: str = ""
    """The id; by default, one that contains the name."""
    federation: str = ""
    """The id of the federation that the user comes from."""


@dataclass
class FakeRealm:
    """A realm. Groups are named by tuples of names, so that names may contain slashes."""

    users: dict[str, User] = field(default_factory=dict)
    groups: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Their ids."""
    secret: str = SECRET
    token: str = TOKEN
    lifetime: int = 300
    shows_users: bool = True
    """Whether the client has the `view-users` role. Without it, groups are not shown either."""
    profile: dict[str, Any] = field(
        default_factory=lambda: {"attributes": [], "unmanagedAttributePolicy": "ADMIN_EDIT"}
    )
    """Who may edit and view attributes of users."""
    records: bool = True
    """Whether admin events are recorded."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """The oldest first."""
    federations: dict[str, dict[str, str]] | None = field(default_factory=dict)
    """The settings of federations, by their ids; None if the client may not read them."""
    escapes: bool = False
    """Whether slashes in names are escaped in paths."""

    def add_groups(self, *paths: tuple[str, ...]) -> None:
        """Add groups, and those above them."""
        for path in paths:
            for end in range(1, len(path) + 1):
                self.groups.setdefault(path[:end], f"group-{len(self.groups)}")

    def join(self, user: str, *paths: tuple[str, ...]) -> None:
        """Add a user, if it is new, to groups, which are added as well."""
        self.add_groups(*paths)
        self.users.setdefault(user, User()).groups += [self.groups[path] for path in paths]

    def record(self, operation: str, kind: str, path: str, *, time: int = 0) -> None:
        """Record an admin event; by default, one second after the one before."""
        before = self.events[-1]["time"] if self.events else 1_000_000
        event = {"operationType": operation, "resourceType": kind, "resourcePath": path}
        self.events.append({"time": time or before + 1_000, **event})

    def answer(self, request: Request) -> Reply:
        """Return the answer to a request."""
        if request.path == "/realms/corp/protocol/openid-connect/token":
            return self._token(request)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return Reply(401, {"error": "HTTP 401 Unauthorized"})
        if not request.path.startswith(f"{API}/"):
            return Reply(404, {"error": "Realm not found."})
        parts = [unquote(part) for part in request.path.removeprefix(f"{API}/").split("/")]
        found = self._single(parts) or self._items(parts, request)
        if isinstance(found, Reply):
            return found
        if request.query.get("briefRepresentation") == "true":
            found = [{key: item[key] for key in item if key != "attributes"} for item in found]
        first, most = int(request.query.get("first", 0)), int(request.query["max"])
        return Reply(200, found[first : first + most])

    def _token(self, request: Request) -> Reply:
        given = (request.form.get("client_id"), request.form.get("client_secret"))
        if given != (CLIENT, self.secret) or request.form["grant_type"] != "client_credentials":
            text = "Invalid client or Invalid client credentials"
            return Reply(401, {"error": "unauthorized_client", "error_description": text})
        body = {"access_token": self.token, "expires_in": self.lifetime, "token_type": "Bearer"}
        return Reply(200, body)

    def _single(self, parts: list[str]) -> Reply | None:
        match parts:
            case ["events", "config"]:
                return Reply(200, {"eventsEnabled": False, "adminEventsEnabled": self.records})
            case ["users", "profile"]:
                return Reply(200, self.profile)
            case ["components", _] if self.federations is None:
                return Reply(403, {"error": "HTTP 403 Forbidden"})
            case ["components", key] if self.federations is not None and key in self.federations:
                config = {name: [value] for name, value in self.federations[key].items()}
                return Reply(200, {"id": key, "name": "ldap", "config": config})
            case ["users", key] if (name := self._name_of(key)) is not None:
                return Reply(200, self._user(name))
        return None

    def _items(self, parts: list[str], request: Request) -> list[Any] | Reply:
        match parts:
            case ["users"]:
                return list(self._matching(request)) if self.shows_users else []
            case ["admin-events"]:
                return sorted(self.events, key=lambda event: -event["time"])
            case ["users", key, "groups"]:
                return self._groups_of(self._name_of(key))
            case ["groups"]:
                found = [path for path in self.groups if _is_found(path[-1], request)]
                return [self._group(path) for path in found] if self.shows_users else []
            case ["groups", key, *what]:
                return self._inside(key, "".join(what))
        return Reply(404, {"error": "HTTP 404 Not Found"})

    def _name_of(self, key: str) -> str | None:
        return next((name for name in self.users if self._user(name)["id"] == key), None)

    def _groups_of(self, name: str | None) -> list[Any] | Reply:
        if name is None:
            return Reply(404, {"error": "User not found"})
        user = self.users[name]
        member_of = [path for path, key in self.groups.items() if key in user.groups]
        return [self._group(path) for path in sorted(member_of)]

    def _inside(self, key: str, what: str) -> list[Any] | Reply:
        path = next((path for path, each in self.groups.items() if each == key), None)
        if path is None:
            return Reply(404, {"error": "Could not find group by id"})
        if not what:
            return Reply(200, self._group(path))
        if what == "children":
            return [self._group(each) for each in self.groups if each[:-1] == path]
        return [self._user(name) for name in self.users if key in self.users[name].groups]

    def _matching(self, request: Request) -> Iterator[dict[str, Any]]:
        query = request.query
        for name, user in self.users.items():
            if "username" in query and name != query["username"].lower():
                continue
            if "email" in query and user.email != query["email"].lower():
                continue
            if "q" in query and not _has_attribute(user, query["q"]):
                continue
            yield self._user(name)

    def _user(self, name: str) -> dict[str, Any]:
        user = self.users[name]
        return {
            "id": user.key or f"id-of-{name}",
            "username": name,
            "enabled": user.enabled,
            **({"email": user.email} if user.email else {}),
            "emailVerified": user.verified,
            **({"federationLink": user.federation} if user.federation else {}),
            **({"attributes": user.attributes} if user.attributes else {}),
        }

    def _group(self, path: tuple[str, ...]) -> dict[str, Any]:
        names = [name.replace("/", "~/") if self.escapes else name for name in path]
        parent = {"parentId": self.groups[path[:-1]]} if path[:-1] else {}
        where = "/" + "/".join(names)
        return {"id": self.groups[path], "name": path[-1], "path": where, "subGroups": []} | parent


def _is_found(name: str, request: Request) -> bool:
    wanted = request.query.get("search", "")
    if request.query.get("exact") == "true":
        return name == wanted
    return wanted.lower() in name.lower()


def _has_attribute(user: User, query: str) -> bool:
    """Return whether a user has an attribute with a quoted value, in any case."""
    found = re.fullmatch(r'([^:" ]+):"([^"\\]*)"', query)
    assert found, query
    return found[2].lower() in map(str.lower, user.attributes.get(found[1], ()))
