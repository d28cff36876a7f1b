"""A hostile directory takes the service from nobody who does not need it."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.followed import MAX_MEMORY
from tests.resilience.isolation.new_users import (
    NEWCOMERS,
    POLICY,
    QUEUES,
    ask_about_new_users,
    expect_newcomers_to_wait,
)
from tests.resilience.isolation.promise import Observation, expect_isolation, observed
from tests.support.fakes.hostile_directory import (
    DONE,
    ENTRY,
    REFERENCE,
    HostileDirectory,
    binding,
    element,
    entry,
    hostile_directory,
    message,
    page,
    result,
)
from tests.support.servers import with_constants
from tests.support.servers.queuegate_server import running_server

BASE: Final = b"dc=lab,dc=test"
DN: Final = b"uid=bob," + BASE
EMPTY: Final = element(4) * 500_000


Answer = Callable[[int, bytes], Iterable[bytes]]
"""Takes the ID of a search and its bytes, and returns the pieces to send."""
NEVER_PAUSED = with_constants.environment(
    {**with_constants.NEVER_PAUSED, "identity.resolvers.ldap.pool.RETRY_SECONDS": 0.05}
)


def _always(answer: Callable[[int], bytes]) -> Answer:
    return lambda number, _: [answer(number)]


def _bob(values: bytes) -> Answer:
    """Return an answer with an entry that is not the user's; its memberOf has these values."""
    attributes = element(0x30, element(0x30, element(4, b"memberOf"), element(0x31, values)))
    return _always(_entry(element(ENTRY, element(4, DN), attributes)))


def _asked_user(values: bytes) -> Answer:
    """Return an answer with the entry of the user whom the search asks for."""
    groups = element(0x30, element(4, b"memberOf"), element(0x31, values))

    def answer(number: int, request: bytes) -> Iterable[bytes]:
        name = _asked_name(request)
        assert name, "the search has no filter for a uid"
        names = element(0x30, element(4, b"uid"), element(0x31, element(4, name)))
        dn = element(4, b"uid=" + name + b"," + BASE)
        yield _entry(element(ENTRY, dn, element(0x30, names + groups)))(number)

    return answer


def _asked_name(request: bytes) -> bytes:
    """Return the name of the user whom a search asks for; empty if it asks for something else."""
    after = request.partition(b"uid\x04")[2]
    return after[1 : 1 + after[0]] if after else b""


def _entry(operation: bytes) -> Callable[[int], bytes]:
    return lambda number: (
        element(0x30, element(2, number.to_bytes(4, "big")), operation) + result(number)
    )


def _values(count: int, rest: bytes) -> bytes:
    return b"".join(element(4, b"cn=g%d," % place + rest + BASE) for place in range(count))


def _entries_and_the_end(number: int, _request: bytes) -> Iterable[bytes]:
    yield entry(number, b"", []) * 20_000
    raise ConnectionResetError


ANSWERS: dict[str, Answer] = {
    "a long DN": _bob(element(4, b"a=b," * 300_000 + BASE)),
    "DNs of 7 KiB": _bob(_values(400, b"a=b," * 1800)),
    "many values": _bob(EMPTY),
    "a long value": _bob(element(4, b"x" * 20_000_000)),
    "many entries": _always(lambda number: entry(number, b"", []) * 100_000 + result(number)),
    "many entries, and the end": _entries_and_the_end,
    "many references": _always(
        lambda number: message(number, REFERENCE, element(4)) * 100_000 + result(number)
    ),
    "a long text": _always(lambda number: result(number, DONE, 1, b"x" * 5_000_000)),
    "pages": _always(lambda number: result(number, controls=page(b"more"))),
    "as much as is allowed": _bob(_values(4900, b"b" * 500)),
    "as many values as are allowed": _asked_user(element(4, b"cn=g") * 23_900),
    "as many groups as are allowed": _asked_user(_values(4900, b"a=b," * 120)),
    "groups whose DNs have 7 KiB": _asked_user(_values(400, b"a=b," * 1800)),
}


def _honest(number: int, request: bytes) -> Iterable[bytes]:
    """Answer that alice is in analytics, and everybody else in data."""
    name = _asked_name(request)
    if not name:
        return [result(number)]
    group = b"analytics" if name == b"alice" else b"data"
    return _asked_user(element(4, b"cn=" + group + b"," + BASE))(number, request)


@pytest.fixture(scope="module")
def hostile() -> Iterator[HostileDirectory]:
    with hostile_directory(binding(_honest)) as directory:
        yield directory


@pytest.fixture(scope="module")
def beside_directory(
    hostile: HostileDirectory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Observation]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "queues.yaml").write_text(POLICY)
    config = folder / "queuegate.yaml"
    config.write_text(
        f"""\
policy: {{path: {folder}/queues.yaml}}
resolvers:
  corp:
    type: ldap
    urls: ["{hostile.url}"]
    start_tls: false
    bind: anonymous
    user_base: dc=lab,dc=test
    user_filter: (uid={{user}})
    groups_from: member_of
partitions:
  default: {{resolver: corp, cache: {{failure_ttl: 1ms}}}}
"""
    )
    with (
        running_server("--config", str(config), environment=NEVER_PAUSED) as server,
        observed(server, queues=QUEUES, max_memory=MAX_MEMORY) as found,
    ):
        yield found


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_hostile_directory(
    hostile: HostileDirectory,
    beside_directory: Observation,
    record: Record,
    answer: Answer,
) -> None:
    def flood() -> None:
        hostile.reply = binding(answer)
        ask_about_new_users(beside_directory.server.address)
        hostile.reply = binding(_honest)

    expect_isolation(beside_directory, record, flood, MAX_MEMORY)


NAMES: Final = map("honest{}".format, itertools.count())


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_new_users_of_a_hostile_directory(
    hostile: HostileDirectory,
    beside_directory: Observation,
    record: Record,
    answer: Answer,
) -> None:
    """They wait for the same source as the flood, but never longer than for a look-up."""

    def reply(number: int, request: bytes) -> Iterable[bytes]:
        is_honest = b"honest" in _asked_name(request)
        return (_honest if is_honest else answer)(number, request)

    hostile.reply = binding(reply)
    names = itertools.islice(NAMES, NEWCOMERS)
    expect_newcomers_to_wait(beside_directory.server.address, record, names)
    hostile.reply = binding(_honest)
