"""Identification of callers and its cost, where no client on this machine can show it."""

import datetime as dt
import time
from collections.abc import Mapping
from typing import Any

import grpc
import pytest
import trustme
from google.rpc import error_details_pb2

from queuegate_server.rpc.authentication import Authenticator, current_caller
from queuegate_server.rpc.authorization import Authorizer, RateLimiter
from queuegate_server.rpc.errors import (
    PermissionDenied,
    RateLimited,
    Unauthenticated,
    to_status,
)
from queuegate_server.settings.listeners import Listener, ListenerTls
from queuegate_server.settings.load import load_settings
from tests.support.rows import rows

CHECK = "queuegate.v1.AccessService.CheckQueueAccess"
RELOAD = "queuegate.v1.PolicyService.ReloadPolicy"
TLS = ListenerTls.model_validate({"certificate_file": "a", "key_file": "b"})
LOCAL = (Listener(address="127.0.0.1:1"),)
SOCKET = (*LOCAL, Listener(address="unix:/x"))
FAR = (Listener(address="10.0.0.1:1", tls=TLS),)


class Call:
    """The context of a call from elsewhere."""

    def __init__(self, peer: str, shown: Mapping[str, list[bytes]] | None = None) -> None:
        self._peer = peer
        self._shown = shown or {}

    def peer(self) -> str:
        return self._peer

    def auth_context(self) -> Mapping[str, list[bytes]]:
        return self._shown

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()


def known(listeners: tuple[Listener, ...] = LOCAL, *settings: str) -> Authenticator:
    return Authenticator(load_settings(None, {}, settings).callers, listeners, None, time.time)


def expired_certificate() -> bytes:
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    return trustme.CA().issue_cert("host", not_after=yesterday).cert_chain_pems[0].bytes()


async def handler(_data: bytes, *, trusted: bool) -> bytes:
    return b"trusted" if trusted else b"untrusted"


@rows
async def test_from_elsewhere_nobody_is_known_without_a_credential(peer: str) -> None:
    guarded = Authorizer(known(FAR)).unary(CHECK, handler)
    with pytest.raises(Unauthenticated) as caught:
        await guarded(b"", Call(peer))  # type: ignore[arg-type]
    status = to_status(caught.value)
    assert status.code is grpc.StatusCode.UNAUTHENTICATED
    info = error_details_pb2.ErrorInfo()
    status.proto.details[0].Unpack(info)
    assert info.reason == "CALLER_UNKNOWN"


@pytest.mark.parametrize(
    ("peer", "listeners", "name"),
    [
        ("ipv4:127.0.0.1:5000", LOCAL, "loopback"),
        ("ipv4:127.8.8.8:5000", LOCAL, "loopback"),
        ("ipv6:%5B::1%5D:5000", LOCAL, "loopback"),
        ("ipv6:[::1]:5000", LOCAL, "loopback"),
        ("unix:", SOCKET, "unix"),
        ("unix:/run/q.sock", SOCKET, "unix"),
        # A stream over the native transport, which serves loopback only.
        ("unix:", LOCAL, "loopback"),
    ],
)
async def test_places_on_this_machine(
    peer: str, listeners: tuple[Listener, ...], name: str
) -> None:
    seen = []

    async def noting(_data: bytes, *, trusted: bool) -> bytes:
        seen.append(current_caller())
        return b""

    guarded = Authorizer(known(listeners)).unary(CHECK, noting)
    await guarded(b"", Call(peer))  # type: ignore[arg-type]
    assert seen == [name]


class Nobody(Call):
    """A call whose caller cannot be identified."""

    def __init__(self) -> None:
        super().__init__("nowhere")


async def test_where_all_callers_are_alike_no_call_is_identified() -> None:
    callers = known()
    authorizer = Authorizer(callers)
    guarded = authorizer.unary(CHECK, handler)
    assert await guarded(b"", Nobody()) == b"trusted"  # type: ignore[arg-type]

    callers.reconfigure(load_settings(None, {}, ["callers.loopback.assert_groups=false"]).callers)
    assert await guarded(b"", Nobody()) == b"untrusted"  # type: ignore[arg-type]

    callers.reconfigure(load_settings(None, {}, ["callers.loopback.roles=read"]).callers)
    with pytest.raises(PermissionDenied):
        await guarded(b"", Nobody())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "listeners",
    [
        FAR,
        SOCKET,
        (Listener(address="127.0.0.1:1", tls=TLS.model_copy(update={"client_ca_file": "c"})),),
    ],
    ids=["far", "socket and port", "certificates"],
)
async def test_where_callers_differ_each_call_is_identified(
    listeners: tuple[Listener, ...],
) -> None:
    with pytest.raises(Unauthenticated):
        await Authorizer(known(listeners)).unary(CHECK, handler)(b"", Nobody())  # type: ignore[arg-type]


def test_a_call_without_a_role_cannot_be_served() -> None:
    with pytest.raises(KeyError):
        Authorizer(known()).unary("queuegate.v1.AccessService.New", handler)


async def test_a_certificate_without_any_name_is_not_taken_for_loopback() -> None:
    tls = TLS.model_copy(update={"client_ca_file": "c"})
    guarded = Authorizer(known((Listener(address="127.0.0.1:1", tls=tls),))).unary(CHECK, handler)
    pem = trustme.CA().issue_cert("host").cert_chain_pems[0].bytes()
    with pytest.raises(PermissionDenied):
        await guarded(b"", Call("ipv4:127.0.0.1:1", {"x509_pem_cert": [pem]}))  # type: ignore[arg-type]


@pytest.mark.parametrize("pem", [b"no certificate", expired_certificate()])
async def test_a_certificate_that_is_not_valid_now_is_none(pem: bytes) -> None:
    tls = TLS.model_copy(update={"client_ca_file": "c"})
    guarded = Authorizer(known((Listener(address="127.0.0.1:1", tls=tls),))).unary(CHECK, handler)
    with pytest.raises(Unauthenticated):
        await guarded(b"", Call("ipv4:127.0.0.1:1", {"x509_pem_cert": [pem]}))  # type: ignore[arg-type]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_holds_a_burst_and_fills_at_the_rate() -> None:
    clock = Clock()
    rates = RateLimiter(10, 3, clock)
    for _ in range(3):
        rates.acquire("a")
    with pytest.raises(RateLimited) as caught:
        rates.acquire("a")
    assert caught.value.retry_after == pytest.approx(0.1)
    rates.acquire("b")
    clock.now += 0.1
    rates.acquire("a")
    with pytest.raises(RateLimited):
        rates.acquire("a")
    clock.now += 1000
    for _ in range(3):
        rates.acquire("a")
    with pytest.raises(RateLimited):
        rates.acquire("a")


async def test_a_caller_over_its_rate_learns_when_to_retry() -> None:
    guarded = Authorizer(known(), RateLimiter(0.5, 1, Clock())).unary(CHECK, handler)
    call: Any = Call("ipv4:127.0.0.1:1")
    assert await guarded(b"", call) == b"trusted"
    with pytest.raises(RateLimited) as caught:
        await guarded(b"", call)
    status = to_status(caught.value)
    retry = error_details_pb2.RetryInfo()
    assert status.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert status.proto.details[1].Unpack(retry)
    assert retry.retry_delay.ToSeconds() == 2
