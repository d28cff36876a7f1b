"""Until when a change is waited for, at times of the test."""

from collections.abc import Mapping
from types import MappingProxyType

from queuegate_server.sync.barrier import EARLIER_PROCESS, Leases
from queuegate_server.sync.change_log import GateLog
from queuegate_server.sync.session import CLOCK_MARGIN, LEASE, Session, ShippedPolicy, SyncRights
from tests.support.sync_stream import sync_request

WHOLE = LEASE + CLOCK_MARGIN
START = 1_000.0
NOW = START + 100.0
RIGHTS = SyncRights(local_decisions=True, assert_groups=True)


class NoPolicies:
    may_decide = True
    shipped: Mapping[str, ShippedPolicy] = MappingProxyType({})


class Streams:
    """The leases of a server, and its changes."""

    stale_millis = 0

    def __init__(self) -> None:
        self.log = GateLog(b"12345678")
        self.leases = Leases(START)

    def open(
        self, name: str, *, instance: bytes = b"", caller: str = "", resume: int | None = None
    ) -> Session:
        """Open a stream, which resumes from a change."""
        session = Session(self.log, NoPolicies(), RIGHTS, caller)
        self.leases.add(session)
        request = sync_request("open", name=name, instance=instance, stale_millis=self.stale_millis)
        if resume is not None:
            request.open.resume.epoch = self.log.epoch
            request.open.resume.sequence = resume
        session.receive(request, NOW)
        return session

    def live(self, name: str, *, instance: bytes = b"", caller: str = "") -> Session:
        """Open a stream whose caller gets a lease now."""
        session = self.open(name, instance=instance, caller=caller)
        session.receive(sync_request("ping", id=1), NOW)
        send(session)
        return session


def send(session: Session) -> None:
    while session.next_response() is not None:
        pass


def apply(session: Session, sequence: int) -> None:
    send(session)
    session.receive(sync_request("applied", sequence=sequence), NOW)


def test_a_caller_that_confirms_late_is_waited_for() -> None:
    streams = Streams()
    session = streams.live("late")
    barrier = streams.leases.barrier(streams.log.invalidate("default"), NOW)
    assert barrier.next_end(NOW) == NOW + WHOLE
    # A lease that was granted after the change does not matter.
    session.receive(sync_request("ping", id=2), NOW + 2)
    send(session)
    assert barrier.next_end(NOW + 2) == NOW + WHOLE
    apply(session, streams.log.head)
    assert barrier.next_end(NOW + 2) is None
    assert barrier.waited_out == []


def test_who_does_not_confirm_is_waited_out() -> None:
    streams = Streams()
    streams.live("slow")
    streams.open("without a lease")
    barrier = streams.leases.barrier(streams.log.invalidate("default"), NOW)
    assert barrier.next_end(NOW + WHOLE - 0.01) == NOW + WHOLE
    assert barrier.next_end(NOW + WHOLE) is None
    assert barrier.waited_out == ["slow"]


def test_barriers_do_not_wait_for_later_changes() -> None:
    streams = Streams()
    session = streams.live("gate")
    first = streams.leases.barrier(streams.log.invalidate("default"), NOW)
    second = streams.leases.barrier(streams.log.invalidate("default"), NOW + 1)
    send(session)
    session.receive(sync_request("applied", sequence=1), NOW)
    assert first.next_end(NOW + 1) is None
    assert second.next_end(NOW + 1) == NOW + WHOLE
    session.receive(sync_request("applied", sequence=2), NOW)
    assert second.next_end(NOW + 1) is None


def test_leases_of_streams_that_ended_are_waited_for() -> None:
    streams = Streams()
    before, during = streams.live("before"), streams.live("during")
    streams.leases.remove(before, NOW)
    barrier = streams.leases.barrier(streams.log.invalidate("default"), NOW)
    streams.leases.remove(during, NOW)
    assert barrier.next_end(NOW) == NOW + WHOLE
    assert barrier.next_end(NOW + WHOLE) is None
    assert sorted(barrier.waited_out) == ["before", "during"]


def test_who_gives_up_its_lease_is_not_waited_for() -> None:
    streams = Streams()
    sessions = [streams.live(name) for name in ("open", "closed")]
    barrier = streams.leases.barrier(streams.log.invalidate("default"), NOW)
    for session in sessions:
        session.receive(sync_request("release"), NOW)
    streams.leases.remove(sessions[1], NOW)
    assert barrier.next_end(NOW) is None
    assert barrier.waited_out == []
    assert streams.leases.last_end(NOW) is None


def test_the_next_stream_of_a_caller_confirms_for_the_one_before() -> None:
    streams = Streams()
    one, two = bytes(15) + b"1", bytes(15) + b"2"
    streams.leases.remove(streams.live("gate", instance=one, caller="token:a"), NOW)
    barrier = streams.leases.barrier(streams.log.invalidate("default"), NOW)
    for other in (
        streams.open("another gate", instance=two, caller="token:a", resume=0),
        streams.open("another caller", instance=one, caller="token:b", resume=0),
        streams.open("without a name", caller="token:a", resume=0),
    ):
        apply(other, streams.log.head)
        assert barrier.next_end(NOW) == NOW + WHOLE
    following = streams.open("gate", instance=one, caller="token:a", resume=0)
    assert barrier.next_end(NOW) == NOW + WHOLE
    apply(following, streams.log.head)
    assert barrier.next_end(NOW) is None
    assert barrier.waited_out == []


def test_leases_of_an_earlier_process_are_waited_for() -> None:
    streams = Streams()
    barrier = streams.leases.barrier(streams.log.invalidate("default"), START + 1)
    assert barrier.next_end(START + 1) == START + WHOLE
    assert barrier.next_end(START + WHOLE) is None
    assert barrier.waited_out == [EARLIER_PROCESS]
    later = streams.leases.barrier(streams.log.invalidate("default"), START + WHOLE)
    assert later.next_end(START + WHOLE) is None
    assert later.waited_out == []


def test_the_last_end_is_that_of_the_last_lease() -> None:
    streams = Streams()
    assert streams.leases.last_end(NOW) is None
    session = streams.live("gate")
    streams.leases.remove(streams.live("closed"), NOW)
    session.receive(sync_request("ping", id=2), NOW + 1)
    send(session)
    assert streams.leases.last_end(NOW + 1) == NOW + 1 + WHOLE
    assert streams.leases.last_end(NOW + 1 + WHOLE) is None
