"""Streams of checks to a running server under ghz, beside the bare handler."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.command import Scale, main
from bench.load import Amount
from bench.pair import BARE, BATCH, KNOWN, LOADS, NEW, Pair, Seen, alternate, pair
from bench.questions import Asked, batches
from bench.results import Part, Table, middle, ratios, spread
from queuegate.v1 import access_pb2

_METHOD: Final = "StreamQueueAccess"
_QUESTIONS: Final = 20_000
_SIZES: Final = (1, 100)
_FIRST_MESSAGES: Final = 200


def measure(scale: Scale, folder: Path) -> Part:
    """Stream to both servers, in messages of few and of many checks."""
    table = Table(
        "Streams (StreamQueueAccess)",
        "ghz, one stream, which sends without waiting for answers; the questions are the same as "
        "for batches. ghz reports no latencies for messages on a stream. As with batches, it "
        "takes a long time to read large answers.",
        (
            "load",
            "checks in a message",
            "messages/s",
            "ratio to bare",
            "checks/s",
            "core busy",
            "CPU µs/message",
            "CPU ratio",
        ),
    )
    for size in _SIZES[scale.is_quick :]:
        with pair(folder / f"stream-{size}", streamed=size) as servers:
            counts, found = _measure(servers, scale, size)
        _add(table, size, counts, found)
    return Part([table], [])


Counts = Mapping[str, list[int]]
"""How many messages each stream of a load had."""


def _measure(servers: Pair, scale: Scale, size: int) -> tuple[Counts, Mapping[str, list[Seen]]]:
    asked = servers.questions.mixed(_QUESTIONS)
    servers.make_known(asked)
    known = servers.write("known", _messages(asked, size))
    counts: dict[str, list[int]] = {load: [] for load in LOADS}

    def stream(load: str, messages: int) -> Seen:
        data = known
        if load == NEW:
            data = servers.write("new", _messages(servers.questions.mixed(messages * size), size))
        return servers.measure(load, _METHOD, data, Amount(1, calls=1, messages=messages))

    def longer(load: str) -> int:
        """Find out how many messages fill the time."""
        messages = _FIRST_MESSAGES
        for _ in range(2):
            seconds = stream(load, messages).load.seconds
            messages = max(messages, int(messages / seconds * scale.seconds))
        return messages

    planned = {load: longer(load) for load in (BARE, KNOWN)}
    planned[NEW] = min(planned[KNOWN], BATCH * BATCH // 10 // size)

    def measure_load(load: str) -> Seen:
        counts[load].append(planned[load])
        if load == KNOWN:
            servers.make_known(asked)
        return stream(load, planned[load])

    return counts, alternate(scale.rounds, measure_load)


def _messages(asked: Sequence[Asked], size: int) -> Iterator[bytes]:
    for number, batch in enumerate(batches(asked, size), start=1):
        message = access_pb2.StreamQueueAccessRequest(id=number, batch=batch)
        yield message.SerializeToString()


def _add(table: Table, size: int, counts: Counts, found: Mapping[str, list[Seen]]) -> None:
    def rates(load: str) -> list[float]:
        return [
            count / one.load.seconds for count, one in zip(counts[load], found[load], strict=True)
        ]

    def cpu(load: str) -> list[float]:
        return [
            one.cpu_seconds / count * 1e6
            for count, one in zip(counts[load], found[load], strict=True)
        ]

    for load in LOADS:
        table.add(
            load,
            str(size),
            spread(rates(load)),
            spread(ratios(rates(load), rates(BARE)), ".2f"),
            middle([rate * size for rate in rates(load)]) if load != BARE else "",
            middle([one.busy for one in found[load]], ".0%"),
            spread(cpu(load)),
            middle(ratios(cpu(load), cpu(BARE)), ".2f"),
        )


if __name__ == "__main__":
    main(measure, __doc__)
