"""Who is identified, as what, and at what cost: what no client on this machine can show."""

import datetime as dt
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import trustme
from google.rpc import error_details_pb2

from queuegate_server.rpc.authentication import Authenticator
from queuegate_server.rpc.authorization import Authorizer
from queuegate_server.rpc.current_caller import CALLER
from queuegate_server.rpc.errors import (
    CallerNotPermitted,
    CallerUnknown,
    TooManyCalls,
    to_status,
)
from queuegate_server.rpc.rate_limit import RateLimiter
from queuegate_server.settings.listeners import Listener, Tls
from queuegate_server.settings.load import load_settings

CHECK = "queuegate.v1.AccessService.CheckQueueAccess"
STREAM = "queuegate.v1.AccessService.StreamQueueAccess"
RELOAD = "queuegate.v1.PolicyService.ReloadPolicy"
TLS = Tls.model_validate({"certificate_file": "a", "key_file": "b"})
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


async def believing(_data: bytes, _context: Any) -> bytes:
    return b"believing"


async def doubting(_data: bytes, _context: Any) -> bytes:
    return b"doubting"


@pytest.mark.parametrize(
    "peer",
    [
        "ipv4:10.0.0.1:5000",
        "ipv4:128.0.0.1:5000",
        "ipv4:12.7.0.1:5000",
        "ipv6:%5B2001:db8::1%5D:5000",
        "ipv6:%5B::1:2%5D:5000",
        "ipv6:%5Bfe80::1%5D:1",
        "vsock:2:1",
        "unix:",
        "unix-abstract:x",
        "unknown",
        "",
    ],
)
async def test_from_elsewhere_nobody_is_known_without_a_credential(peer: str) -> None:
    handler = Authorizer(known(FAR)).unary(CHECK, believing, doubting)
    with pytest.raises(CallerUnknown) as caught:
        await handler(b"", Call(peer))  # type: ignore[arg-type]
    status = to_status(caught.value)
    assert status.code == 16
    info = error_details_pb2.ErrorInfo()
    status.details[0].Unpack(info)
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

    async def handler(_data: bytes, _context: Any) -> bytes:
        seen.append(CALLER.get())
        return b""

    gate = Authorizer(known(listeners), always=True)
    await gate.unary(CHECK, handler, doubting)(b"", Call(peer))  # type: ignore[arg-type]
    assert seen == [name]


def believing_at_once(_data: bytes) -> bytes:
    return b"believing"


def doubting_at_once(_data: bytes) -> bytes:
    return b"doubting"


class Nobody(Call):
    """A call that cannot be looked at."""

    def __init__(self) -> None:
        super().__init__("nowhere")


async def test_where_all_calls_are_alike_nothing_stands_before_them() -> None:
    callers = known()
    gate = Authorizer(callers)
    handler = gate.unary(CHECK, believing, doubting)
    at_once = gate.at_once(CHECK, believing_at_once, doubting_at_once)
    assert await handler(b"", Nobody()) == at_once(b"") == b"believing"  # type: ignore[arg-type]
    with pytest.raises(CallerUnknown):
        await gate.unary(RELOAD, believing, doubting)(b"", Nobody())  # type: ignore[arg-type]

    callers.use(load_settings(None, {}, ["callers.loopback.assert_groups=false"]).callers)
    gate.callers_changed()
    assert await handler(b"", Nobody()) == at_once(b"") == b"doubting"  # type: ignore[arg-type]

    callers.use(load_settings(None, {}, ["callers.loopback.roles=read"]).callers)
    gate.callers_changed()
    assert at_once(b"") is None
    with pytest.raises(CallerNotPermitted):
        await handler(b"", Call("ipv4:127.0.0.1:1"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "gate",
    [
        Authorizer(known(FAR)),
        Authorizer(known(), always=True),
        Authorizer(known(SOCKET), RateLimiter(1, 1, lambda: 0.0)),
        Authorizer(known(SOCKET, "callers.unix.roles=read")),
        Authorizer(known(SOCKET, "callers.unix.assert_groups=false")),
        Authorizer(
            known(
                (
                    Listener(
                        address="127.0.0.1:1", tls=TLS.model_copy(update={"client_ca_file": "c"})
                    ),
                )
            )
        ),
    ],
    ids=["far", "always", "rates", "roles differ", "trust differs", "certificates"],
)
async def test_where_calls_differ_each_is_looked_at(gate: Authorizer) -> None:
    assert gate.at_once(CHECK, believing_at_once, doubting_at_once)(b"") is None
    with pytest.raises(CallerUnknown):
        await gate.unary(CHECK, believing, doubting)(b"", Nobody())  # type: ignore[arg-type]


def test_a_call_without_a_role_cannot_be_served() -> None:
    with pytest.raises(KeyError):
        Authorizer(known()).unary("queuegate.v1.AccessService.New", believing, doubting)


async def test_a_certificate_without_any_name_is_not_taken_for_loopback() -> None:
    tls = TLS.model_copy(update={"client_ca_file": "c"})
    handler = Authorizer(known((Listener(address="127.0.0.1:1", tls=tls),))).unary(
        CHECK, believing, doubting
    )
    pem = trustme.CA().issue_cert("host").cert_chain_pems[0].bytes()
    with pytest.raises(CallerNotPermitted):
        await handler(b"", Call("ipv4:127.0.0.1:1", {"x509_pem_cert": [pem]}))  # type: ignore[arg-type]


@pytest.mark.parametrize("pem", [b"no certificate", expired_certificate()])
async def test_a_certificate_that_is_not_valid_now_is_none(pem: bytes) -> None:
    tls = TLS.model_copy(update={"client_ca_file": "c"})
    handler = Authorizer(known((Listener(address="127.0.0.1:1", tls=tls),))).unary(
        CHECK, believing, doubting
    )
    with pytest.raises(CallerUnknown):
        await handler(b"", Call("ipv4:127.0.0.1:1", {"x509_pem_cert": [pem]}))  # type: ignore[arg-type]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_holds_a_burst_and_fills_at_the_rate() -> None:
    clock = Clock()
    rates = RateLimiter(10, 3, clock)
    for _ in range(3):
        rates.count("a")
    with pytest.raises(TooManyCalls) as caught:
        rates.count("a")
    assert caught.value.retry_after == pytest.approx(0.1)
    rates.count("b")
    clock.now += 0.1
    rates.count("a")
    with pytest.raises(TooManyCalls):
        rates.count("a")
    clock.now += 1000
    for _ in range(3):
        rates.count("a")
    with pytest.raises(TooManyCalls):
        rates.count("a")


async def test_a_caller_over_its_rate_is_told_when_to_come_again() -> None:
    handler = Authorizer(known(), RateLimiter(0.5, 1, Clock())).unary(CHECK, believing, doubting)
    call: Any = Call("ipv4:127.0.0.1:1")
    assert await handler(b"", call) == b"believing"
    with pytest.raises(TooManyCalls) as caught:
        await handler(b"", call)
    status = to_status(caught.value)
    retry = error_details_pb2.RetryInfo()
    assert status.code == 8
    assert status.details[1].Unpack(retry)
    assert retry.retry_delay.ToSeconds() == 2


async def test_the_only_caller_is_answered_at_once_within_its_rate() -> None:
    clock = Clock()
    gate = Authorizer(known(), RateLimiter(1, 2, clock))
    handler = gate.unary(CHECK, believing, doubting)
    at_once = gate.at_once(CHECK, lambda data: data or None, doubting_at_once)
    call: Any = Call("ipv4:127.0.0.1:1")
    # What is not answered at once is counted where it is.
    for _ in range(5):
        assert at_once(b"") is None
    assert at_once(b"1") == b"1"
    assert await handler(b"", call) == b"believing"
    assert at_once(b"3") is None
    with pytest.raises(TooManyCalls):
        await handler(b"3", call)
    clock.now += 1
    assert at_once(b"4") == b"4"
    with pytest.raises(TooManyCalls):
        await handler(b"5", call)


async def test_a_stream_over_its_rate_is_read_from_more_slowly() -> None:
    clock = Clock()
    rates = RateLimiter(1000, 1, clock)
    read = []

    async def requests() -> AsyncIterator[bytes]:
        for number in range(3):
            read.append(clock.now)
            clock.now += 0.0005
            yield bytes([number])

    async def echo(items: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
        async for item in items:
            clock.now += 1
            yield item

    stream = Authorizer(known(), rates).stream(STREAM, echo, echo)
    call: Any = Call("ipv4:127.0.0.1:1")
    assert [item async for item in stream(requests(), call)] == [b"\0", b"\1", b"\2"]
    assert len(read) == 3
