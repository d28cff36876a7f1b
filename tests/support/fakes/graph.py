"""What Microsoft Graph 1.0 answers to the requests of the resolver, as its reference documents it.

No tenant was asked. Tokens are issued at the same address.
"""

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.support.fakes.rest_api import Reply, Request

TENANT = "example.com"
CLIENT = "11111111-2222-3333-4444-555555555555"
SECRET = "s3cret-of-the-application"
ASSERTION = "token-of-another-issuer"
TOKEN = "token-of-the-application"
API = "/v1.0"

Item = dict[str, Any]


def settings(url: str) -> dict[str, Any]:
    """Return the settings of a resolver, without those of its credentials and of TLS."""
    return {"tenant": TENANT, "client_id": CLIENT, "login_url": url, "graph_url": url}


def identity(name: str) -> str:
    """Return the id of a user or group."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


@dataclass
class FakeTenant:
    """A tenant in memory."""

    url: str = ""
    """Its own address, for links to next pages."""
    users: dict[str, Item] = field(default_factory=dict)
    """By id."""
    groups: dict[str, Item] = field(default_factory=dict)
    """By id."""
    member_of: dict[str, list[str]] = field(default_factory=dict)
    """The ids of all groups of a user, direct or not, by the user's id."""
    secret: str = SECRET
    accepts: Callable[[str], bool] = lambda assertion: assertion == ASSERTION
    """Whether an assertion vouches for the application."""
    changes: dict[str, list[Item]] = field(default_factory=lambda: {"users": [], "groups": []})
    """What delta queries return, the oldest change first."""
    changes_per_page: int = 2
    is_synced: bool = True
    """Whether links of delta queries are still known."""
    token: str = TOKEN
    lifetime: int = 3599

    def add_group(self, key: str, **properties: Any) -> str:
        """Add a security group, by default with the display name `key`, and return its id."""
        group: Item = {
            "id": identity(key),
            "displayName": key,
            "securityEnabled": True,
            "onPremisesSyncEnabled": None,
            "onPremisesSamAccountName": None,
        }
        self.groups[group["id"]] = group | properties
        return identity(key)

    def add_user(self, upn: str, *groups: str, **properties: Any) -> None:
        """Add a user, and the groups if they are new."""
        user: Item = {
            "id": identity(upn),
            "userPrincipalName": upn,
            "accountEnabled": True,
            "onPremisesSamAccountName": None,
        }
        self.users[user["id"]] = user | properties
        for key in groups:
            if identity(key) not in self.groups:
                self.add_group(key)
        self.member_of[identity(upn)] = [identity(key) for key in groups]

    def answer(self, request: Request) -> Reply:
        """Return the answer to a request."""
        if request.path == f"/{TENANT}/oauth2/v2.0/token":
            return self._token(request)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return error(401, "InvalidAuthenticationToken")
        parts = [unquote(part) for part in request.path.removeprefix(f"{API}/").split("/")]
        if "microsoft.graph." in request.path or "$filter" in request.query:
            counts = request.query.get("$count") == "true"
            if request.headers.get("ConsistencyLevel") != "eventual" or not counts:
                return error(400, "Request_UnsupportedQuery")
        if parts[1:] == ["delta"]:
            return self._delta(parts[0], request)
        found = self._found(parts, request)
        if isinstance(found, Reply):
            return found
        return self._page(found, request)

    def _token(self, request: Request) -> Reply:
        form = request.form
        by_secret = form.get("client_secret") == self.secret
        by_assertion = form.get("client_assertion_type", "").endswith(
            ":jwt-bearer"
        ) and self.accepts(form.get("client_assertion", ""))
        if form.get("client_id") != CLIENT or not (by_secret or by_assertion):
            text = "AADSTS7000215: Invalid client secret provided."
            return Reply(401, {"error": "invalid_client", "error_description": text})
        if form.get("scope") != f"{self.url}/.default":
            return Reply(400, {"error": "invalid_scope"})
        body = {"access_token": self.token, "expires_in": self.lifetime, "token_type": "Bearer"}
        return Reply(200, body)

    def _delta(self, kind: str, request: Request) -> Reply:
        changes, token = self.changes[kind], request.query["$deltatoken"]
        if token == "latest":
            assert request.query["$select"]
            first = len(changes)
        elif not self.is_synced:
            return error(410, "SyncStateNotFound")
        else:
            first = int(token)
        page = changes[first:][: self.changes_per_page]
        is_last = first + len(page) == len(changes)
        link = f"{self.url}{request.path}?$deltatoken={first + len(page)}"
        body: Item = {"value": page, "@odata.deltaLink" if is_last else "@odata.nextLink": link}
        return Reply(200, body)

    def _found(self, parts: Sequence[str], request: Request) -> list[Item] | Reply:
        match parts:
            case [("users" | "groups") as kind]:
                items = self.users if kind == "users" else self.groups
                return _matching(items.values(), request)
            case [("users" | "groups") as kind, key] if not key.startswith("$"):
                by_name = self._by_upn(key) if kind == "users" else None
                return _one(self.users.get(key) or self.groups.get(key) or by_name)
            case ["users", key, "transitiveMemberOf", "microsoft.graph.group"]:
                known = [self.groups[each] for each in self.member_of.get(key, ())]
                return known if key in self.users else _one(None)
            case ["groups", key, "transitiveMembers", "microsoft.graph.user"]:
                return [
                    self.users[user] for user, groups in self.member_of.items() if key in groups
                ]
        quoted = re.fullmatch(r"users\('(.*)'\)", parts[0])
        if quoted is None:
            return error(400, "BadRequest")
        return _one(self._by_upn(quoted[1].replace("''", "'")))

    def _by_upn(self, key: str) -> Item | None:
        users = self.users.values()
        return next((each for each in users if _is_upn(each, key)), None)

    def _page(self, items: list[Item], request: Request) -> Reply:
        size = int(request.query["$top"])
        first = int(request.query.get("$skiptoken", 0))
        body: Item = {"@odata.context": f"{self.url}{API}/$metadata", "value": items[first:][:size]}
        if len(items) > first + size:
            query = dict(request.query) | {"$skiptoken": str(first + size)}
            text = "&".join(f"{key}={value}" for key, value in query.items()).replace(" ", "%20")
            body["@odata.nextLink"] = f"{self.url}{request.path}?{text}"
        return Reply(200, body)


def error(status: int, code: str) -> Reply:
    """Return an error in the form of Microsoft Graph."""
    return Reply(status, {"error": {"code": code, "message": "a text for people"}})


def _one(item: Item | None) -> Reply:
    return error(404, "Request_ResourceNotFound") if item is None else Reply(200, item)


def _matching(items: Any, request: Request) -> list[Item]:
    """Return the items that a filter selects, in any case."""
    text = request.query.get("$filter")
    if text is None:
        return list(items)
    parsed = re.fullmatch(r"(\w+) (?:eq (?P<one>'.*')|in \((?P<many>'.*')\))", text)
    assert parsed, text
    literals = re.findall(r"'((?:[^']|'')*)'", parsed["one"] or parsed["many"])
    wanted = {literal.replace("''", "'").lower() for literal in literals}
    return [item for item in items if str(item[parsed[1]]).lower() in wanted]


def _is_upn(user: Item, name: str) -> bool:
    upn: str = user["userPrincipalName"]
    return upn.lower() == name.lower()
