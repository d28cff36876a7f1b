"""What Okta's management API answers to the requests of the resolver, as its reference says.

No organization was asked.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote, urlencode

from tests.support.fakes.rest_api import Reply, Request

TOKEN = "api-token-of-the-account"
ACCESS_TOKEN = "access-token-of-the-application"
CLIENT = "0oa1b2c3d4"
API = "/api/v1"

Item = dict[str, Any]


@dataclass
class FakeOrganization:
    """An organization in memory."""

    url: str = ""
    """Its own address, for links to next pages."""
    users: dict[str, Item] = field(default_factory=dict)
    """By id."""
    groups: dict[str, Item] = field(default_factory=dict)
    """By id."""
    member_of: dict[str, list[str]] = field(default_factory=dict)
    """The ids of the groups of a user, by the user's id."""
    token: str = TOKEN
    accepts: Callable[[str], bool] = lambda _: False
    """Whether an assertion vouches for the application."""
    grants: frozenset[str] = frozenset({"okta.users.read", "okta.groups.read"})
    """The scopes of the application."""
    requires_dpop: bool = False
    log: list[Item] = field(default_factory=list)
    """The System Log, as its events were stored. `stored` is when, in Unix seconds."""
    keeps_links: bool = True
    """Whether links to further events are still known."""
    pages_of_groups: int = 1000
    """How many of a user's groups a page has."""

    def add_group(self, key: str, name: str = "", kind: str = "OKTA_GROUP") -> str:
        """Add a group, by default with the name `key`, and return its id."""
        self.groups[f"00g{key}"] = {
            "id": f"00g{key}",
            "type": kind,
            "profile": {"name": name or key},
        }
        return f"00g{key}"

    def add_user(
        self, login: str, *groups: str, status: str = "ACTIVE", **profile: str | None
    ) -> None:
        """Add a user, and the groups if they are new."""
        key = f"00u{len(self.users)}"
        self.users[key] = {"id": key, "status": status, "profile": {"login": login, **profile}}
        for group in groups:
            if f"00g{group}" not in self.groups:
                self.add_group(group)
        self.member_of[key] = [f"00g{group}" for group in groups]

    def record(self, kind: str, *targets: Item, **more: Any) -> None:
        """Add an event to the System Log."""
        event = {"uuid": str(len(self.log)), "eventType": kind, "target": list(targets)}
        self.log.append(event | {"stored": time.time()} | more)

    def answer(self, request: Request) -> Reply:
        """Return the answer to a request."""
        if request.path == "/oauth2/v1/token":
            return self._token(request.form)
        if request.headers.get("Authorization") not in {
            f"SSWS {self.token}",
            f"Bearer {ACCESS_TOKEN}",
        }:
            return error(401, "E0000011")
        return self._found(request)

    def _found(self, request: Request) -> Reply:
        parts = [unquote(part) for part in request.path.removeprefix(f"{API}/").split("/")]
        match parts:
            case [("users" | "groups") as kind]:
                items = self.users if kind == "users" else self.groups
                return self._page(_matching(items, request), request)
            case [("users" | "groups") as kind, key]:
                by_name = self._by_login(key) if kind == "users" else None
                return _one(self.users.get(key) or self.groups.get(key) or by_name)
            case ["logs"]:
                return self._events(request)
            case ["users", key, "groups"] if key in self.users:
                found = [self.groups[each] for each in self.member_of[key]]
                return self._page(found, request, self.pages_of_groups)
            case ["groups", key, "users"] if key in self.groups:
                members = [user for user, groups in self.member_of.items() if key in groups]
                return self._page([self.users[user] for user in members], request)
        return _one(None)

    def _token(self, form: Mapping[str, str]) -> Reply:
        is_assertion = form.get("client_assertion_type", "").endswith(":jwt-bearer")
        if not is_assertion or not self.accepts(form.get("client_assertion", "")):
            text = "The client_assertion JWT kid is invalid."
            return Reply(401, {"error": "invalid_client", "error_description": text})
        if self.requires_dpop:
            text = "The DPoP proof JWT header is missing."
            return Reply(400, {"error": "invalid_dpop_proof", "error_description": text})
        if not self.grants.issuperset(form["scope"].split(" ")):
            return Reply(400, {"error": "invalid_scope"})
        body = {"access_token": ACCESS_TOKEN, "expires_in": 3600, "token_type": "Bearer"}
        return Reply(200, body | {"scope": form["scope"]})

    def _events(self, request: Request) -> Reply:
        query = request.query
        assert query["sortOrder"] == "ASCENDING"
        assert "until" not in query
        wanted = set(re.findall(r'eventType eq "([a-z_.]+)"', query["filter"]))
        if "after" in query and not self.keeps_links:
            return error(400, "E0000001")
        first = int(query.get("after", 0))
        if "since" in query:
            since = datetime.strptime(query["since"], "%Y-%m-%dT%H:%M:%S%z").timestamp()
            first = sum(event["stored"] < since for event in self.log)
        size = int(query["limit"])
        page = self.log[first:][:size]
        more = {key: value for key, value in query.items() if key != "since"}
        text = urlencode(more | {"after": str(first + len(page))})
        link = f'<{self.url}{request.path}?{text}>; rel="next"'
        events = [event for event in page if event["eventType"] in wanted]
        return Reply(200, events, {"Link": link})

    def _by_login(self, key: str) -> Item | None:
        """Return a user by login, or by the part before the `@`, in any case."""
        for user in self.users.values():
            login = user["profile"]["login"].lower()
            if key.lower() in {login, login.partition("@")[0]}:
                return user
        return None

    def _page(self, items: Sequence[Item], request: Request, size: int = 0) -> Reply:
        size = size or int(request.query["limit"])
        first = int(request.query.get("after", 0))
        # The client joins headers of the same name, as a proxy may do.
        links = [f'<{self.url}{request.path}>; rel="self"']
        if len(items) > first + size:
            query = dict(request.query) | {"after": str(first + size)}
            text = "&".join(f"{key}={quote(value, safe='')}" for key, value in query.items())
            links.append(f'<{self.url}{request.path}?{text}>; rel="next"')
        return Reply(200, list(items[first:][:size]), {"Link": ", ".join(links)})


def error(status: int, code: str) -> Reply:
    """Return an error in the form of Okta."""
    return Reply(status, {"errorCode": code, "errorSummary": "a text for people"})


def _one(item: Item | None) -> Reply:
    return error(404, "E0000007") if item is None else Reply(200, item)


def _matching(items: dict[str, Item], request: Request) -> list[Item]:
    """Return the items that a filter or search selects, in any case."""
    text = request.query.get("filter") or request.query.get("search")
    if text is None:
        return list(items.values())
    terms = re.findall(r'profile\.(\w+) eq "((?:[^"\\]|\\.)*)"', text)
    assert terms, text
    wanted = {(key, re.sub(r"\\(.)", r"\1", literal).lower()) for key, literal in terms}
    return [
        item
        for item in items.values()
        if any((item["profile"].get(key) or "").lower() == value for key, value in wanted)
    ]
