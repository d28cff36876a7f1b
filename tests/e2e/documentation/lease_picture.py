"""The picture of leases in docs/pictures: a run of the state machines of both sides.

`python -m tests.e2e.documentation.lease_picture` draws it.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.charts import WIDTH, Axis, document, element, text
from queuegate.gate.session import GateSession
from queuegate.v1 import sync_pb2
from queuegate_server.sync.barrier import Leases
from queuegate_server.sync.change_log import SERVER_BYTES, GateLog
from queuegate_server.sync.session import LEASE, Session, SyncRights
from tests.resilience.protocol.gate_model import VersionPolicies, VersionReplica

PICTURE: Final = Path("docs/pictures/leases.svg")
STEPS: Final = 20
"""Steps of the clock in a second."""
START: Final = -10
END: Final = 10
CHANGE: Final = 3.0
SLOW: Final = (2.4, 4.4)
"""Messages that are sent to the second gate from then on arrive at once at the later time."""
AGAIN: Final = 8.2
"""When the second gate connects again; its messages since the change were lost."""
NOW: Final = "decides by the policy of the server"
BEFORE: Final = "decides by the policy before"
ASKS: Final = "asks the server"
COLOURS: Final = {
    "now": ("#aceebb", "#196c2e"),
    "before": ("#fbe3a6", "#6a4800"),
    "asks": ("#d8dee4", "#30363d"),
    "waits": ("#ddf4ff", "#0c2d6b"),
}
_CLASSES: Final = {NOW: "now", BEFORE: "before", ASKS: "asks"}
_LEFT: Final = 100
_BAR: Final = 30
_BOTTOM: Final = 326


class Span(NamedTuple):
    """What a gate does for a while."""

    begin: float
    end: float
    does: str


class Underway(NamedTuple):
    """A message to a gate."""

    arrives: float
    response: sync_pb2.SyncResponse


class Gate:
    """A gate, and its stream to the server."""

    def __init__(self, stream: Session) -> None:
        self.replica: Final = VersionReplica()
        self.session: Final = GateSession(self.replica, "gate")
        self.does: list[Span] = []
        self.late_pong = 0.0, 0.0
        """When the ping of the pong that came late was sent, and when that pong came."""
        self.connect(stream, START + 0.5)

    def connect(self, stream: Session, first_ping: float) -> None:
        """Open a stream."""
        self.stream = stream
        self._next_ping = first_ping
        self.up = deque([self.session.open()])
        self.down: deque[Underway] = deque()

    def step(self, now: float, delay: Callable[[float], float]) -> None:
        """Move the messages that arrive, and note what the gate does.

        Args:
            now: The time in seconds.
            delay: Returns when a message arrives that is sent at a time.
        """
        if now >= self._next_ping:
            self._next_ping += self.session.ping_interval
            self.up.append(self.session.ping(now))
        while True:
            while self.up:
                request = self.up.popleft()
                if delay(now) < math.inf:
                    self.stream.receive(request, now)
            while (response := self.stream.next_response()) is not None:
                self.down.append(Underway(delay(now), response))
            if not self.down or self.down[0].arrives > now:
                break
            response = self.down.popleft().response
            answer = self.session.receive(response, now)
            if response.HasField("pong") and now == SLOW[1]:
                self.late_pong = self.session.lease_until - LEASE, now
            self.up.extend([answer] if answer else [])
        self._note(now)

    def _note(self, now: float) -> None:
        if not self.replica.confirmed or now >= self.session.lease_until:
            does = ASKS
        else:
            does = NOW if now < CHANGE or self.replica.policy == 1 else BEFORE
        if self.does and self.does[-1].does == does:
            self.does[-1] = self.does[-1]._replace(end=now)
        else:
            self.does[-1:] = [each._replace(end=now) for each in self.does[-1:]]
            self.does.append(Span(now, now, does))


class Run(NamedTuple):
    """What happened."""

    first: Gate
    second: Gate
    returned: float
    """When the barrier returned."""


def play() -> Run:
    """Have a server change its policy while the connection of its second gate is bad."""
    log, policies = GateLog(bytes(SERVER_BYTES)), VersionPolicies(0)
    leases = Leases(START - 2 * LEASE)

    def stream() -> Session:
        opened = Session(log, policies, SyncRights(local_decisions=True, assert_groups=True))
        leases.add(opened)
        return opened

    first, second = Gate(stream()), Gate(stream())
    barrier, returned = None, 0.0
    for step in range(START * STEPS, END * STEPS + 1):
        now = step / STEPS
        if now == CHANGE:
            policies.version = 1
            barrier = leases.barrier(log.policy_changed(), now)
        elif now == AGAIN:
            leases.remove(second.stream, now)
            second.connect(stream(), now)
        first.step(now, lambda sent: sent)
        second.step(now, _bad)
        if barrier and not returned and barrier.next_end(now) is None:
            returned = now
    return Run(first, second, returned)


def _bad(sent: float) -> float:
    """Return when a message arrives over the bad connection."""
    begin, end = SLOW
    if CHANGE <= sent < AGAIN:
        return math.inf
    return end if begin <= sent < CHANGE else sent


def draw() -> str:
    """Return the picture."""
    run = play()
    axis = Axis([], _LEFT, WIDTH - 24, ticks=range(END + 1))
    place = axis.place
    parts = []
    for tick in axis.ticks:
        x = place(tick)
        parts.append(element("path", "grid", d=f"M{x:.1f} 92V{_BOTTOM}"))
        parts.append(text(x, _BOTTOM + 18, f"{tick:g} s", anchor="middle"))
    middle = (place(CHANGE) + place(run.returned)) / 2
    parts += [
        *_bar(axis, "the server", 92, [Span(CHANGE, run.returned, "waits")]),
        text(middle, 112, "a reload with --wait", anchor="middle"),
        text(place(CHANGE), 84, "the policy changes", anchor="middle"),
        text(place(run.returned), 84, "the call returns", anchor="middle"),
        *_bar(axis, "gate 1", 146, run.first.does),
        text(place(CHANGE) + 6, 166, "applies and confirms the change at once"),
        *_bar(axis, "gate 2", 200, run.second.does),
    ]
    for at in (CHANGE, run.returned):
        parts.append(element("path", "ink", "edge", d=f"M{place(at):.1f} 92V{_BOTTOM}"))
    sent, arrives = run.second.late_pong
    until = sent + LEASE
    parts += [
        *_lease(axis, "first", 252, sent, until),
        text(place(sent) + 8, 270, "the lease: 5 s from when the ping was sent", colour="first"),
        *_lease(axis, "second", 292, arrives, arrives + LEASE),
        text(place(arrives) + 8, 310, "if it began when the pong came", colour="second"),
        *_key(_BOTTOM + 44),
    ]
    return document(
        _BOTTOM + 60,
        "A lease, and a call that waits for it",
        f"gate 2 sends a ping at {sent:g} s; the pong comes at {arrives:g} s, and then nothing "
        f"until {AGAIN:g} s",
        parts,
        colours=COLOURS,
    )


def _bar(axis: Axis, name: str, y: float, does: Sequence[Span]) -> list[str]:
    parts = [text(_LEFT - 14, y + 20, name, anchor="end")]
    for span in does:
        x, end = axis.place(max(0.0, span.begin)), axis.place(span.end)
        if span.end > 0:
            colour = _CLASSES.get(span.does, "waits")
            parts.append(element("rect", colour, x=x, y=y, width=end - x, height=_BAR))
    return parts


def _lease(axis: Axis, colour: str, y: float, begin: float, end: float) -> list[str]:
    left, right = axis.place(begin), axis.place(end)
    return [
        element("circle", colour, cx=left, cy=y, r=4.5),
        element("path", colour, "line", d=f"M{left:.1f} {y:.1f}H{right:.1f}m0 -6v12"),
    ]


def _key(y: float) -> list[str]:
    parts: list[str] = []
    x = 24.0
    for does, colour in _CLASSES.items():
        parts.append(element("rect", colour, x=x, y=y - 12, width=16, height=16))
        parts.append(text(x + 24, y, does))
        x += 44 + 6.8 * len(does)
    return parts


def main() -> None:
    """Write it."""
    PICTURE.write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
