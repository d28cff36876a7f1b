"""Reading a batch's checks together yields the same queries as reading each one alone."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuegate.policy.acl import parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import build_partition
from queuegate.v1 import access_pb2
from queuegate.v1.cursor_pb2 import Cursor
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.engine import Query, Snapshot
from queuegate_server.rpc import bulk_validation, validation
from queuegate_server.rpc.bulk_validation import BLOCK, CheckReader
from tests.support.snapshots import two_partitions

Check = access_pb2.CheckQueueAccessRequest
SUBMIT = access_pb2.ACCESS_TYPE_SUBMIT
UNKNOWN_FIELD = b"\x7a\x01x"
EMPTY_QUEUE = b"\x1a\x00"


def check(user: str, groups: tuple[str, ...], queue: str = "root", partition: str = "") -> bytes:
    information = UserGroupInformation(user=user, groups=groups)
    return Check(
        user=information, queue=queue, partition=partition, access=SUBMIT
    ).SerializeToString()


PLAIN = st.builds(
    check,
    st.sampled_from(["alice", "bob", "carol"]),
    st.sampled_from([(), ("dev",), ("ops", "dev")]),
    st.sampled_from(["root", "root.a", "ROOT.A", "root.b.new"]),
    st.sampled_from(["", "", "default", "yarn"]),
)
PART = st.sampled_from(
    [
        b"",
        b"",
        b"",
        Check(user=UserGroupInformation(groups=["ops"])).SerializeToString(),
        Check(user=UserGroupInformation(user="dave")).SerializeToString(),
        Check(user=UserGroupInformation(no_groups=True)).SerializeToString(),
        Check(user=UserGroupInformation()).SerializeToString(),
        Check(at_least=Cursor()).SerializeToString(),
        Check(at_least=Cursor(epoch=b"e", sequence=1)).SerializeToString(),
        Check(queue="root.b").SerializeToString(),
        Check(access=access_pb2.ACCESS_TYPE_ADMIN).SerializeToString(),
        Check(real_user="hive").SerializeToString(),
        Check(partition="yarn").SerializeToString(),
        b"\x0a\x03\x0a\x01\xff",
        UNKNOWN_FIELD,
        EMPTY_QUEUE,
    ]
)


def read(reader: CheckReader, count: int) -> list[Query | None]:
    """Return the queries of all checks, read in blocks."""
    starts = range(0, count, BLOCK)
    blocks = [reader.read_many(range(start, min(start + BLOCK, count))) for start in starts]
    return [query for block in blocks for query in block]


@settings(max_examples=200)
@given(
    checks=st.lists(PLAIN, min_size=2, max_size=3 * BLOCK),
    parts=st.lists(st.tuples(st.integers(0, 3 * BLOCK), PART, st.booleans()), max_size=3),
    trusted=st.booleans(),
)
def test_checks_read_together_are_those_read_alone(
    checks: list[bytes], parts: list[tuple[int, bytes, bool]], trusted: bool
) -> None:
    for number, part, is_first in parts:
        plain = checks[number % len(checks)]
        checks[number % len(checks)] = part + plain if is_first else plain + part
    snapshot = two_partitions()
    queries = read(CheckReader(checks, snapshot, trusted=trusted), len(checks))
    for data, query in zip(checks, queries, strict=True):
        if query is not None:
            assert not Check.FromString(data).HasField("at_least")
            assert query == validation.query(Check.FromString(data), snapshot, trusted=trusted)


@pytest.fixture
def snapshot() -> Snapshot:
    return two_partitions()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The users that are validated."""
    names: list[str] = []
    valid_users = bulk_validation.valid_users

    def spy(users: list[UserGroupInformation], served: object, *, trusted: bool) -> object:
        names.extend(each.user for each in users)
        return valid_users(users, served, trusted=trusted)  # type: ignore[arg-type]

    monkeypatch.setattr(bulk_validation, "valid_users", spy)
    return names


def test_a_user_that_recurs_is_parsed_once(snapshot: Snapshot, parsed: list[str]) -> None:
    checks = [check(f"user{number % 30}", ("dev",)) for number in range(10 * BLOCK)]
    assert None not in read(CheckReader(checks, snapshot, trusted=True), len(checks))
    assert sorted(parsed) == sorted({f"user{number}" for number in range(30)})


def test_users_that_do_not_recur_are_not_retained(snapshot: Snapshot) -> None:
    checks = [check(f"user{number}", ()) for number in range(4 * BLOCK)]
    reader = CheckReader(checks, snapshot, trusted=True)
    assert None not in read(reader, len(checks))
    assert not reader._users


def test_an_invalid_user_slows_down_one_block(snapshot: Snapshot) -> None:
    checks = [check(f"user{number % 30}", ("dev",)) for number in range(3 * BLOCK)]
    checks[0] = check("user1", ("\x00",))
    queries = read(CheckReader(checks, snapshot, trusted=True), len(checks))
    assert queries[:BLOCK] == [None] * BLOCK
    assert None not in queries[BLOCK:]


def test_retained_users_are_bounded(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_validation, "_MAX_USER_BYTES", 2_000)
    checks = [check(f"user{number // 2}", ("dev" * 20,)) for number in range(20 * BLOCK)]
    reader = CheckReader(checks, snapshot, trusted=True)
    for start in range(0, len(checks), BLOCK):
        assert None not in reader.read_many(range(start, start + BLOCK))
        retained = [user for users in reader._users.values() for user in users]
        assert retained
        assert sum(map(len, retained)) <= 2_000 + BLOCK * 100


def test_a_users_groups_depend_on_the_partition(snapshot: Snapshot) -> None:
    """YuniKorn's names are stricter than YARN's, so a user is retained for each partition."""
    checks = [
        check("a b", ("dev",), partition=partition) for partition in ("yarn", "default") * BLOCK
    ]
    queries = read(CheckReader(checks, snapshot, trusted=True), len(checks))
    assert [query is not None for query in queries] == [True, False] * BLOCK


def test_plain_checks_are_read_together(snapshot: Snapshot) -> None:
    checks = [check(f"user{number}", ("dev",), "root.a") for number in range(BLOCK)]
    assert None not in read(CheckReader(checks, snapshot, trusted=True), BLOCK)


@pytest.mark.parametrize("path", ["root.a\tb", "root." + "q" * 5_000], ids=["tab", "long"])
def test_a_queue_that_no_request_may_name_is_read_alone(path: str) -> None:
    queue = QueueAcls(path, parse("*"), parse(""))
    partition = build_partition("default", "", [QueueAcls("root", parse(""), parse("")), queue])
    served = replace(two_partitions().find("default"), partition=partition)
    assert bulk_validation.valid_paths([path, "root"], served) == [None, "root"]
