"""Authentication: identifies a call's principal by its credentials and peer address.

A token takes precedence over a certificate, and a certificate over the peer's address. A call with
a rejected credential never falls back to a weaker identity.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol

from queuegate_server.files.peer_certificate import peer_certificate
from queuegate_server.rpc.errors import PermissionDenied, Unauthenticated
from queuegate_server.rpc.tokens import MIN_LENGTH, TokenFile
from queuegate_server.settings.callers import MAX_NAME_LENGTH, Callers, Rights, Role
from queuegate_server.settings.listeners import Listener


class _CallContext(Protocol):
    """The subset of gRPC's context needed to identify a caller."""

    def invocation_metadata(self) -> Any: ...
    def auth_context(self) -> Mapping[str, Iterable[bytes]]: ...
    def peer(self) -> str: ...


_BEARER: Final = "bearer "
_TOKEN: Final = "token:"  # noqa: S105 - a prefix of names
_CERTIFICATE: Final = "x509_pem_cert"
_SUBJECT: Final = "x509_subject"
"""The `auth_context` key of the certificate's subject in RFC 2253 format. This format escapes
control characters, including NUL."""
_LOOPBACK: Final = ("ipv4:127.", "ipv6:%5B::1%5D:", "ipv6:[::1]:")


@dataclass(frozen=True, slots=True)
class Principal:
    """An identified caller. Its name comes from the settings, so it is safe to log."""

    name: str
    rights: Rights

    @property
    def has_token(self) -> bool:
        """Whether the caller presented a bearer token."""
        return self.name.startswith(_TOKEN)

    def require(self, role: Role) -> None:
        """Raise PermissionDenied, naming the setting to change, if the caller lacks the role."""
        if role not in self.rights.roles:
            kind, _, name = self.name.partition(":")
            setting = f"callers.{kind}s.{name}" if name else f"callers.{kind}"
            raise PermissionDenied(
                f"this call needs the {role} role, which {self.name} does not have: add it to"
                f" {setting}.roles, now [{', '.join(self.rights.roles)}], in the server's settings"
            )


_PRINCIPAL: ContextVar[Principal | None] = ContextVar("principal", default=None)


def set_current_principal(principal: Principal) -> None:
    """Set the current call's principal."""
    _PRINCIPAL.set(principal)


def current_caller() -> str:
    """Return the current principal's name; empty if there is none."""
    principal = _PRINCIPAL.get()
    return "" if principal is None else principal.name


class Authenticator:
    """Maps each call to a principal defined in the settings."""

    def __init__(
        self,
        settings: Callers,
        listeners: Sequence[Listener],
        tokens: TokenFile | None,
        wall: Callable[[], float],
    ) -> None:
        """Create an authenticator for the callers in the settings.

        Args:
            settings: The callers' rights.
            listeners: The server's listeners, which determine the credentials that callers can
                present.
            tokens: The token file, if any.
            wall: The wall clock in Unix seconds, for certificate expiry.
        """
        self._tokens = tokens
        self._wall = wall
        self._has_sockets = any(listener.parsed.path for listener in listeners)
        self._has_ports = not all(listener.parsed.path for listener in listeners)
        self._with_certificates = any(
            listener.tls and listener.tls.client_ca_file for listener in listeners
        )
        self._is_local = all(listener.parsed.is_local for listener in listeners)
        self._changes = 0
        self.reconfigure(settings)

    def reconfigure(self, settings: Callers) -> None:
        """Apply the callers' rights from new settings. The token file stays the same."""
        self._changes += 1
        self._loopback = Principal("loopback", settings.loopback)
        self._unix = Principal("unix", settings.unix)
        self._by_certificate = {
            name: Principal(f"certificate:{name}", rights)
            for name, rights in settings.certificates.items()
        }
        self._by_token = {
            name: Principal(f"{_TOKEN}{name}", rights) for name, rights in settings.tokens.items()
        }
        # Without a Unix listener, a Unix peer is the native transport forwarding a stream over its
        # own socket. That transport serves only loopback callers.
        self._by_socket = (
            self._unix if self._has_sockets else self._loopback if self._is_local else None
        )
        # If all callers map to the same principal, calls need not be inspected.
        can_differ = self._tokens or self._with_certificates or not self._is_local
        if can_differ or (self._has_ports and self._has_sockets):
            self._sole = None
        else:
            self._sole = self._loopback if self._has_ports else self._unix

    @property
    def version(self) -> object:
        """A value that changes whenever callers' principals may have changed."""
        return self._changes, None if self._tokens is None else self._tokens.version

    def identify(self, context: _CallContext) -> Principal:
        """Return a call's principal. Raises Unauthenticated and PermissionDenied."""
        if self._sole is not None:
            return self._sole
        if self._tokens is not None and (token := _bearer_token(context)) is not None:
            return self._token_owner(self._tokens.name_of(token), len(token))
        if self._with_certificates:
            auth_context = context.auth_context()
            if certificate := self._certificate(auth_context):
                shown = peer_certificate(certificate)
                if shown.fault:
                    raise Unauthenticated(f"the client certificate cannot be used: {shown.fault}")
                if self.is_past(shown.not_after):
                    raise Unauthenticated("the client certificate has expired")
                return self._certificate_holder(shown.names, auth_context)
        peer = context.peer()
        if peer.startswith("unix:") and self._by_socket is not None:
            return self._by_socket
        if peer.startswith(_LOOPBACK):
            return self._loopback
        raise Unauthenticated(
            "a caller from another machine must present a client certificate or a bearer token"
            " that the server knows"
        )

    def knows_token(self, context: _CallContext) -> bool:
        """Return whether a bearer token identifies the caller."""
        try:
            return self.identify(context).has_token
        except (Unauthenticated, PermissionDenied):
            return False

    def certificate_expiry(self, context: _CallContext) -> float:
        """Return the certificate's expiry in Unix seconds; infinity if the caller has none."""
        certificate = self._certificate(context.auth_context())
        return peer_certificate(certificate).not_after if certificate else math.inf

    def is_past(self, moment: float) -> bool:
        """Return whether a moment, in Unix seconds, has passed."""
        return moment <= self._wall()

    def _token_owner(self, name: str | None, length: int) -> Principal:
        if length < MIN_LENGTH:
            raise Unauthenticated(
                f"the bearer token is too short: it must have at least {MIN_LENGTH} characters, as"
                " tokens from `queuegate-server token` do"
            )
        if name is None:
            raise Unauthenticated("the server does not know the bearer token")
        principal = self._by_token.get(name)
        if principal is None:
            raise PermissionDenied(
                f"the bearer token has no role: give {name} one in callers.tokens"
            )
        return principal

    def _certificate(self, auth_context: Mapping[str, Iterable[bytes]]) -> bytes:
        """Return the certificate verified in the handshake, if any. It may have expired since."""
        if not self._with_certificates:
            return b""
        return next(iter(auth_context.get(_CERTIFICATE, ())), b"")

    def _certificate_holder(
        self, names: Sequence[str], auth_context: Mapping[str, Iterable[bytes]]
    ) -> Principal:
        subjects = [each.decode("utf-8", "replace") for each in auth_context.get(_SUBJECT, ())]
        for name in (*names, *(f"subject:{subject}" for subject in subjects)):
            if (principal := self._by_certificate.get(name)) is not None:
                return principal
        example = f", such as {names[0][:MAX_NAME_LENGTH]}," if names else ""
        raise PermissionDenied(
            f"no name in the client certificate has a role: add a name{example} to"
            " callers.certificates"
        )


def _bearer_token(context: _CallContext) -> str | None:
    """Return a call's bearer token; None without an authorization header.

    Raises Unauthenticated if the header contains anything else.
    """
    headers = [
        value for key, value in context.invocation_metadata() or () if key == "authorization"
    ]
    if not headers:
        return None
    text = headers[0]
    if len(headers) > 1 or not isinstance(text, str) or not text.lower().startswith(_BEARER):
        raise Unauthenticated("the authorization header must contain exactly one bearer token")
    return text[len(_BEARER) :].strip()
