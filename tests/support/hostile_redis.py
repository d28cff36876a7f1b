"""Contents of Redis that its other users can write, as expensive as possible to read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tests.support.servers.redis_server import RedisServer

PREFIX: Final = "{queuegate}:"
MIB: Final = 1 << 20
FIELDS: Final = 200_000
ENTRIES: Final = 30
LARGE: Final = bytes(16 * MIB)
STATE: Final = ("epoch", "seq", "head", "turn")

Command = Sequence[str | bytes]


def many_replicas(redis: RedisServer) -> None:
    """The number of fields in the hash of replicas: as many as Redis accepts in a second."""

    def commands() -> Iterator[Command]:
        for start in range(0, FIELDS, 1_000):
            pairs = [(b"%016x" % number, b"x" * 64) for number in range(start, start + 1_000)]
            yield ["HSET", f"{PREFIX}replicas", *[each for pair in pairs for each in pair]]

    redis.write(commands())


def large_replicas(redis: RedisServer) -> None:
    """Statuses of the maximum size, and larger ones."""
    redis.write(
        ["HSET", f"{PREFIX}replicas", b"%016x" % number, b"x" * 65_000] for number in range(2_000)
    )
    redis.write(["HSET", f"{PREFIX}replicas", f"large{number}", LARGE] for number in range(10))


def long_names(redis: RedisServer) -> None:
    """Fields with long names."""
    redis.write(
        ["HSET", f"{PREFIX}replicas", b"%d" % number + LARGE[: 4 * MIB], b"x"]
        for number in range(20)
    )


def large_entries(redis: RedisServer) -> None:
    """Entries of the stream that follow the newest event."""
    redis.write(
        ["XADD", f"{PREFIX}events", "*", "event", LARGE, "id", b"x"] for _ in range(ENTRIES)
    )


def entries_of_many_fields(redis: RedisServer) -> None:
    redis.write(
        ["XADD", f"{PREFIX}events", "*", *[b"%d" % (number // 2) for number in range(200_000)]]
        for _ in range(10)
    )


def many_entries(redis: RedisServer) -> None:
    redis.write(["XADD", f"{PREFIX}events", "*", "event", b"x"] for _ in range(100_000))


def large_state(redis: RedisServer) -> None:
    """The keys whose values scripts return."""
    for _ in range(3):
        redis.write(["SET", f"{PREFIX}{name}", LARGE * 4] for name in STATE)


def other_types(redis: RedisServer) -> None:
    """Keys of another type, under all names."""
    for _ in range(20):
        for name in (*STATE, "events", "replicas"):
            members = [b"%d" % number for number in range(1_000)]
            redis.write([("DEL", f"{PREFIX}{name}"), ("SADD", f"{PREFIX}{name}", *members)])


def keys_that_expire(redis: RedisServer) -> None:
    """Keys that repeatedly disappear."""
    for _ in range(20):
        redis.write(["PEXPIRE", f"{PREFIX}{name}", "20"] for name in (*STATE, "events", "replicas"))


HOSTILE: Final[Mapping[str, Callable[[RedisServer], None]]] = {
    each.__name__: each
    for each in (
        many_replicas,
        large_replicas,
        long_names,
        large_entries,
        entries_of_many_fields,
        many_entries,
        large_state,
        other_types,
        keys_that_expire,
    )
}
