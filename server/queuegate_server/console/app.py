"""The web application, which authorizes page requests and sets response headers."""

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from contextlib import nullcontext
from http import HTTPStatus
from importlib import resources
from math import ceil
from typing import Final

from aiohttp import web

from queuegate_server.admin.headers import cookie, has_long_query
from queuegate_server.admin.http import ADMIT, Handler, Site
from queuegate_server.admin.http_call import HttpCall, is_loopback_host
from queuegate_server.console.attention import problems
from queuegate_server.console.callers import is_embedded_elsewhere, is_own_origin
from queuegate_server.console.forms import first_values, posted_fields
from queuegate_server.console.pages import PAGES
from queuegate_server.console.rendering import environment, render
from queuegate_server.console.sessions import SESSION_SECONDS, FailedAttempts, Sessions
from queuegate_server.console.views import (
    PREFIX,
    SMALL_FORM_BYTES,
    Route,
    Services,
    Url,
    View,
    Visit,
    url,
)
from queuegate_server.rpc.authentication import Authenticator, Principal, set_current_principal
from queuegate_server.rpc.authorization import RateLimiter
from queuegate_server.rpc.errors import PermissionDenied, Unauthenticated, to_status
from queuegate_server.settings.callers import Role
from queuegate_server.transports.http.failures import HTTP_STATUSES

_LOG = logging.getLogger("queuegate_server.console")
COOKIE: Final = "queuegate_session"
MAX_LINE_BYTES: Final = 16 * 1024
"""The maximum length of a request line. A URL may contain a queue path of 4,096 bytes, each escaped
as three characters."""
MAX_REQUESTS: Final = 32
REQUEST_SECONDS: Final = 60.0
_REST_SECONDS: Final = 0.01
"""The pause after the first step of a page's handler, and after rendering a page, in seconds."""
_SIGN_IN: Final = "sign-in"
_SIGN_OUT: Final = "sign-out"
_LOOPBACK: Final = "loopback"
_UNAUTHENTICATED: Final = 401
_OWN_PAGE: Final = re.compile(re.escape(PREFIX) + r"[!-\[\]-~]*")
"""Matches the URL of a console page, in printable ASCII without backslashes."""
_EXPLANATIONS: Final = {
    403: "Other sites may link to pages but cannot load them.",
    404: "There is no such page.",
    405: "The page does not accept this request method.",
    400: "The request is malformed.",
    408: "The form took too long to arrive.",
    411: "The form has no Content-Length header.",
    413: "The form is too large.",
    415: "This form does not accept this content type.",
    503: "Too many pages are being loaded: try again.",
    421: "This port is on loopback: use localhost or the port's IP address in the console's URL.",
}
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none';"
    " form-action 'self'; object-src 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Vary": "HX-Request",
}


class ConsoleSite:
    """The console's request handlers.

    Args:
        services: The server components used by pages.
        authenticator: Identifies callers.
        rates: The callers' rate limits, if any.
    """

    def __init__(
        self, services: Services, authenticator: Authenticator, rates: RateLimiter | None
    ) -> None:
        self._services = services
        self._authenticator = authenticator
        self._rates = rates
        self._sessions = Sessions(time.monotonic)
        self._failures = FailedAttempts(time.monotonic)
        self._templates = environment()
        self._starts = asyncio.Lock()
        self._rendering = asyncio.Lock()
        self._form_steps = asyncio.Lock()
        port = services.settings.ops.listener
        self._local_port = port is not None and port.parsed.is_local
        self._secure = port is not None and port.tls is not None
        folder = resources.files("queuegate_server.console") / "static"
        self._static = {
            each.name: (each.read_bytes(), _TYPES[suffix])
            for each in folder.iterdir()
            for suffix in _TYPES
            if each.name.endswith(suffix)
        }

    def site(self) -> Site:
        """Return the console's routes and limits for the operations port."""
        app = web.Application(middlewares=[self._with_headers])
        app.router.add_get("/", self._home)
        app.router.add_get("/static/{name}", self._file)
        app.router.add_get(f"/{_SIGN_IN}", self._sign_in_form)
        app.router.add_post(f"/{_SIGN_IN}", self._sign_in)
        app.router.add_post(f"/{_SIGN_OUT}", self._sign_out)
        for page in PAGES:
            for route in page.routes:
                app.router.add_route(route.method, f"/{route.path}", self._handler(route))
        return Site(PREFIX, app, MAX_LINE_BYTES, MAX_REQUESTS, REQUEST_SECONDS)

    def _handler(self, route: Route) -> Handler:
        async def respond(request: web.Request) -> web.StreamResponse:
            try:
                principal = self._identify(request)
            except Unauthenticated as error:
                return await self._sign_in_page(request, str(error), status=_UNAUTHENTICATED)
            try:
                return await self._respond(route, request, principal)
            except Exception as error:  # show it on a page with the caller's navigation
                return await self._error(request, error, principal)

        return respond

    async def _respond(
        self, route: Route, request: web.Request, principal: Principal
    ) -> web.Response:
        principal.require(route.role)
        if self._rates is not None:
            self._rates.acquire(principal.name)
        with request.app[ADMIT](request):
            result = await self._result(route, request, principal)
        if isinstance(result, Url):
            return _redirect(result)
        async with self._rendering:
            page = await self._page(request, result, principal)
            # Leave time for RPCs on the event loop, however many pages are requested.
            await asyncio.sleep(_REST_SECONDS)
            return page

    async def _result(self, route: Route, request: web.Request, principal: Principal) -> View | Url:
        """Read the form, if any, and run the page's handler on the caller's behalf."""
        set_current_principal(principal)
        turns = route.large_forms
        form: Mapping[str, str] = {}
        if route.method == "POST":
            if turns is not None:
                turns.check()
            max_bytes, with_files = route.max_form_bytes, turns is not None
            form = await self._form(request, max_bytes, principal.name, with_files=with_files)
        if route.role is Role.ADMIN:
            fields = {"caller": principal.name, "path": route.path}
            _LOG.info("administrator page", extra=fields)
        visit = Visit(self._services, principal, first_values(request.query.items()), form)
        # Wait for a turn only after reading the form, so that slow senders do not block others.
        async with nullcontext() if turns is None else turns.turn():
            await self._take_start()
            return await route.handler(visit)

    async def _take_start(self) -> None:
        """Wait until a handler may start. Its first step may take milliseconds. A rest follows it:
        otherwise, RPCs would wait for the first steps of many pages.
        """
        await self._starts.acquire()
        loop = asyncio.get_running_loop()
        # `call_soon` runs after the handler's first step.
        loop.call_soon(loop.call_later, _REST_SECONDS, self._starts.release)

    def _identify(self, request: web.Request) -> Principal:
        """Identify the caller. Raises Unauthenticated and PermissionDenied."""
        session = cookie(request, COOKIE)
        token = None if session is None else self._sessions.token(session)
        call = HttpCall(request, token, local_port=self._local_port)
        if session is not None and token is None and not call.has_authorization:
            raise Unauthenticated("the session has ended: sign in again")
        try:
            principal = self._authenticator.identify(call)
        except Unauthenticated:
            if call.has_authorization:
                self._services.sign_ins["failure"] += 1
            raise
        if principal.name == _LOOPBACK and not call.peer():
            raise Unauthenticated("a proxy must send its caller's bearer token")
        return principal

    async def _form(
        self, request: web.Request, max_bytes: int, caller: str, *, with_files: bool = False
    ) -> dict[str, str]:
        """Return a form's fields. Raises PermissionDenied unless a console page sent the form."""
        if not is_own_origin(request):
            raise PermissionDenied("the form was sent by another site")
        try:
            posted = posted_fields(request, max_bytes, self._form_steps, with_files=with_files)
            fields = dict(reversed(await posted))  # the first value of each name
        except ValueError:
            raise web.HTTPBadRequest from None
        session = cookie(request, COOKIE) or ""
        if not self._sessions.is_form_token(fields.pop("form_token", ""), session, caller):
            raise PermissionDenied("the form is out of date: open its page again")
        return fields

    def _check_request(self, request: web.Request) -> None:
        """Reject long queries.

        Unless a token in a header identifies the caller, also reject loads by other sites' pages
        and, on a loopback port, requests for hosts other than loopback.
        """
        if has_long_query(request):
            raise web.HTTPBadRequest
        # Another site's page cannot make the browser send a token in a header.
        if self._authenticator.knows_token(HttpCall(request, None, local_port=False)):
            return
        if self._local_port and not is_loopback_host(request):
            raise web.HTTPMisdirectedRequest
        if request.method in {"GET", "HEAD"} and is_embedded_elsewhere(request):
            raise web.HTTPForbidden

    async def _home(self, _: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(url(PAGES[0].path))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        asset = self._static.get(request.match_info["name"])
        if asset is None:
            raise web.HTTPNotFound
        body, content_type = asset
        return web.Response(body=body, content_type=content_type, charset="utf-8")

    async def _sign_in_form(self, request: web.Request) -> web.StreamResponse:
        return await self._sign_in_page(request, "", to=request.query.get("next", ""))

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        try:
            form = await self._form(request, SMALL_FORM_BYTES, "")
        except PermissionDenied as error:
            return await self._message(request, 403, str(error))
        call = HttpCall(request, form.get("token", "").strip(), local_port=self._local_port)
        to = form.get("next", "")
        try:
            principal = self._token_owner(call)
        except (Unauthenticated, PermissionDenied) as error:
            return await self._reject_sign_in(request, call.address, str(error), to)
        self._services.sign_ins["success"] += 1
        _LOG.info("signed in", extra={"caller": principal.name, "peer": call.address})
        self._sessions.delete(cookie(request, COOKIE) or "")
        response = _redirect(to)
        response.set_cookie(
            COOKIE,
            self._sessions.create(form["token"].strip(), principal.name),
            path=PREFIX,
            max_age=int(SESSION_SECONDS),
            httponly=True,
            samesite="Strict",
            secure=self._secure,
        )
        return response

    async def _reject_sign_in(
        self, request: web.Request, address: str, reason: str, to: str
    ) -> web.Response:
        """Reject an invalid token. After many failures, the address must wait and is not logged.

        Valid tokens are accepted meanwhile, because several callers may share an address.
        """
        if (delay := self._failures.wait(address)) > 0:
            self._services.sign_ins["refused"] += 1
            text = f"too many failed attempts: try again in {ceil(delay)} s"
            return await self._sign_in_page(request, text, status=429, to=to)
        self._failures.add(address)
        self._services.sign_ins["failure"] += 1
        _LOG.warning("sign-in failed", extra={"peer": address, "reason": reason})
        return await self._sign_in_page(request, reason, status=403, to=to)

    def _token_owner(self, call: HttpCall) -> Principal:
        principal = self._authenticator.identify(call)
        if not principal.has_token:
            # Without a token file, a loopback caller is identified even with a wrong token.
            raise Unauthenticated("the server does not know the bearer token")
        return principal

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        try:
            await self._form(request, SMALL_FORM_BYTES, self._identify(request).name)
        except (Unauthenticated, PermissionDenied) as error:
            return await self._message(request, 403, str(error))
        self._sessions.delete(cookie(request, COOKIE) or "")
        response = _redirect("")
        response.del_cookie(COOKIE, path=PREFIX)
        return response

    async def _sign_in_page(
        self, request: web.Request, error: str, *, status: int = 200, to: str = ""
    ) -> web.Response:
        """Return the sign-in form. After sign-in, the browser is redirected to the page `to`."""
        if not to and request.method == "GET" and not request.path.endswith(_SIGN_IN):
            to = request.rel_url.raw_path_qs
        # The form token must not depend on an expired session, because its cookie is deleted below.
        session = cookie(request, COOKIE) or ""
        is_expired = self._sessions.token(session) is None
        model = {
            "error": error,
            "next": to,
            "form_token": self._sessions.form_token("" if is_expired else session, ""),
            "local": self._local_port,
        }
        response = await self._page(request, View("sign_in.html", "Sign in", model, status), None)
        if status == _UNAUTHENTICATED:
            response.headers["WWW-Authenticate"] = "Bearer"
        if is_expired and cookie(request, COOKIE) is not None:
            response.del_cookie(COOKIE, path=PREFIX)
        return response

    async def _message(
        self, request: web.Request, status: int, text: str, principal: Principal | None = None
    ) -> web.Response:
        view = View("message.html", HTTPStatus(status).phrase, {"text": text}, status)
        return await self._page(request, view, principal)

    async def _error(
        self, request: web.Request, error: Exception, principal: Principal | None = None
    ) -> web.Response:
        if isinstance(error, web.HTTPException):
            status, text = error.status, _EXPLANATIONS.get(error.status, "")
        else:
            failure = to_status(error)
            status, text = HTTP_STATUSES.get(failure.code, 500), failure.proto.message
        return await self._message(request, status, text, principal)

    async def _page(
        self, request: web.Request, view: View, principal: Principal | None
    ) -> web.Response:
        session = cookie(request, COOKIE) or ""
        is_fragment = "HX-Request" in request.headers and "HX-Boosted" in request.headers
        body = await render(
            self._templates.get_template(view.template),
            attention=() if principal is None else self._attention(request, principal),
            layout="fragment.html" if is_fragment else "base.html",
            title=view.title,
            page=view.model,
            pages=PAGES,
            here=request.path.removeprefix(PREFIX),
            caller=None if principal is None else principal.name,
            is_signed_in=principal is not None and principal.has_token,
            has_tokens=self._services.settings.callers.token_file is not None,
            form_token=(
                "" if principal is None else self._sessions.form_token(session, principal.name)
            ),
        )
        return web.Response(
            body=body, status=view.status, content_type="text/html", charset="utf-8"
        )

    def _attention(self, request: web.Request, principal: Principal) -> tuple[str, ...]:
        """Return the problems to show in the banner.

        The Health page has no banner because it lists the problems itself.
        """
        if Role.READ not in principal.rights.roles or request.path == url("health"):
            return ()
        return tuple(problems(self._services))

    @web.middleware
    async def _with_headers(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._check_request(request)
            response = await handler(request)
        except web.HTTPRedirection as error:
            response = _redirect(error.headers["Location"], error.status)
        except Exception as error:  # the outermost handler turns every error into a page
            response = await self._error(request, error)
        response.headers.update(HEADERS)
        return response


def _redirect(to: str, status: int = 303) -> web.Response:
    """Redirect to `to` if it is the URL of a console page, otherwise to the home page."""
    return web.Response(
        status=status, headers={"Location": to if _OWN_PAGE.fullmatch(to) else PREFIX}
    )
