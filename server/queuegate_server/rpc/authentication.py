"""Who calls, and with which rights.

What a caller shows decides: a token before a certificate, a certificate before the
place that the call comes from. Whoever shows something is not taken for anything less.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import grpc.aio

from queuegate_server.files.certificates import expiry
from queuegate_server.rpc.errors import CallerNotPermitted, CallerUnknown
from queuegate_server.rpc.tokens import TokenFile
from queuegate_server.settings.callers import Callers, Rights, Role
from queuegate_server.settings.listeners import Listener

Context = grpc.aio.ServicerContext[Any, Any]

_BEARER: Final = "bearer "
_CERTIFICATE: Final = "x509_pem_cert"
_LOOPBACK: Final = ("ipv4:127.", "ipv6:%5B::1%5D:", "ipv6:[::1]:")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who was identified. The name is one of the settings, so it is fit for a log."""

    name: str
    rights: Rights

    def require(self, role: Role) -> None:
        """Raise CallerNotPermitted if the caller does not have this role."""
        if role not in self.rights.roles:
            raise CallerNotPermitted(f"this needs the role {role}, which {self.name} does not have")


class Authenticator:
    """Identifies callers. Used from one event loop."""

    def __init__(
        self,
        settings: Callers,
        listeners: Sequence[Listener],
        tokens: TokenFile | None,
        wall: Callable[[], float],
    ) -> None:
        """Take who may do what, where it is served, the tokens if there are any, and a wall
        clock in seconds, by which certificates expire.
        """
        self._tokens = tokens
        self._wall = wall
        self._has_sockets = any(listener.parsed.path for listener in listeners)
        self._has_ports = not all(listener.parsed.path for listener in listeners)
        self._with_certificates = any(
            listener.tls and listener.tls.client_ca_file for listener in listeners
        )
        self._here_only = all(listener.parsed.is_local for listener in listeners)
        self._uses = 0
        self.use(settings)

    @property
    def version(self) -> object:
        """Something that is another one whenever a caller may be identified differently."""
        return self._uses, 0 if self._tokens is None else self._tokens.reloads

    def expiry(self, context: Context) -> float:
        """Return when the certificate that a caller has shown expires, in Unix seconds;
        infinity if there is none, and 0 if that cannot be read.
        """
        certificate = self._certificate(context.auth_context())
        return _expires(certificate) if certificate else math.inf

    def is_past(self, expiry: float) -> bool:
        """Say whether that is over by now."""
        return expiry <= self._wall()

    def use(self, settings: Callers) -> None:
        """Take who may do what from now on; the file of the tokens stays."""
        self._uses += 1
        self._loopback = Principal("loopback", settings.loopback)
        self._unix = Principal("unix", settings.unix)
        self._by_certificate = {
            name: Principal(f"certificate:{name}", rights)
            for name, rights in settings.certificates.items()
        }
        self._by_token = {
            name: Principal(f"token:{name}", rights) for name, rights in settings.tokens.items()
        }
        # Without a listener for Unix sockets, such a peer is the native transport, which serves
        # loopback only and hands streams on through a socket of its own.
        self._by_socket = (
            self._unix if self._has_sockets else self._loopback if self._here_only else None
        )

    @property
    def the_only_one(self) -> Principal | None:
        """Whoever calls, if there is nobody else; None if each call must be looked at."""
        places = self._places()
        return places[0] if len(places) == 1 else None

    def the_same_for_all(self, role: Role) -> Principal | None:
        """Return one who stands for all, if the call alone decides: nobody can show
        anything, and all places are alike. None if each call must be looked at.
        """
        places = self._places()
        rights = {(role in each.rights.roles, each.rights.assert_groups) for each in places}
        return places[0] if len(rights) == 1 else None

    def _places(self) -> list[Principal]:
        """Return all who can call, where nobody can show anything; nobody where one can."""
        if self._tokens or self._with_certificates or not self._here_only:
            return []
        return [self._loopback] * self._has_ports + [self._unix] * self._has_sockets

    def identify(self, context: Context) -> Principal:
        """Return who makes a call. Raises CallerUnknown, CallerNotPermitted."""
        if self._tokens is not None and (token := _token(context)) is not None:
            return self._owner(self._tokens.name_of(token))
        if self._with_certificates:
            shown = context.auth_context()
            if certificate := self._certificate(shown):
                if self.is_past(_expires(certificate)):
                    raise CallerUnknown("the certificate has expired")
                return self._holder(tuple(names(shown)))
        peer = context.peer()
        if peer.startswith("unix:") and self._by_socket is not None:
            return self._by_socket
        if peer.startswith(_LOOPBACK):
            return self._loopback
        raise CallerUnknown("this needs a certificate or a token that the server knows")

    def _owner(self, name: str | None) -> Principal:
        if name is None:
            raise CallerUnknown("the token is not valid")
        caller = self._by_token.get(name)
        if caller is None:
            raise CallerNotPermitted("the token has no role")
        return caller

    def _certificate(self, shown: Mapping[str, Iterable[bytes]]) -> bytes:
        """Return the verified certificate of a connection; empty without one. The connection,
        or the TLS session that it resumes, may be older than its expiry.
        """
        return next(iter(shown.get(_CERTIFICATE, ())), b"") if self._with_certificates else b""

    def _holder(self, shown: Sequence[str]) -> Principal:
        for name in shown:
            if (caller := self._by_certificate.get(name)) is not None:
                return caller
        raise CallerNotPermitted("no name of the certificate has a role")


@lru_cache(maxsize=1024)
def _expires(certificate: bytes) -> float:
    try:
        return expiry(certificate)
    except ValueError:
        return 0.0


def names(shown: Any) -> Iterator[str]:
    """Yield the names of the verified certificate of a connection, as the settings spell
    them, the more specific ones first; none if there is no certificate.
    """
    if not shown.get(_CERTIFICATE):
        return
    yield from _texts(shown, "peer_spiffe_id", "")
    yield from _texts(shown, "peer_uri", "uri:")
    for name in _texts(shown, "peer_dns", "dns:"):
        yield name.lower()
    yield from _texts(shown, "x509_common_name", "cn:")
    yield from _texts(shown, "x509_subject", "subject:")
    # Known by no name, but shown all the same.
    yield ""


def _texts(shown: Any, key: str, kind: str) -> Iterator[str]:
    for value in shown.get(key, ()):
        yield kind + value.decode("utf-8", "replace")


def _token(context: Context) -> str | None:
    """Return the bearer token of a call, None if it brings no credential along.

    Raises CallerUnknown for a credential that is none of ours.
    """
    sent = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
    if not sent:
        return None
    text = sent[0]
    if len(sent) > 1 or not isinstance(text, str) or not text.lower().startswith(_BEARER):
        raise CallerUnknown("the authorization is not that of one bearer token")
    return text[len(_BEARER) :].strip()
