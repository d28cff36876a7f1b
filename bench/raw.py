"""A load generator that does not parse the answers.

ghz needs several milliseconds to parse the answer to a large batch. This one keeps the answers as
bytes, so that the server is the slower of the two. The answers are checked beforehand.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import cycle, islice
from pathlib import Path
from statistics import quantiles
from typing import Final

import grpc.aio
import uvloop

from bench.command import CannotMeasure
from bench.load import Amount, Load
from bench.questions import undelimited

_MAX_SECONDS: Final = 300
_SERVICE: Final = "queuegate.v1.AccessService"


class Raw:
    """The generator as a separate process."""

    def run(self, address: str, method: str, data: Path, amount: Amount) -> Load:
        """See Generator."""
        command = [sys.executable, "-m", "bench.raw", address, method, str(data)]
        command.append(f"--concurrency={amount.concurrency}")
        if amount.seconds is not None:
            command.append(f"--seconds={amount.seconds}")
        if amount.calls is not None:
            command.append(f"--calls={amount.calls}")
        told = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_MAX_SECONDS,
            check=False,
            cwd=Path(__file__).parents[1],
        )
        if told.returncode:
            raise CannotMeasure(f"calls failed: {told.stderr[-1000:]}")
        return Load(**json.loads(told.stdout))


async def call(address: str, method: str, messages: list[bytes], amount: Amount) -> Load:
    """Call until the amount is reached."""
    latencies: list[float] = []
    async with grpc.aio.insecure_channel(address) as channel:
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"/{_SERVICE}/{method}"
        )
        await channel.channel_ready()
        start = time.perf_counter()
        end = start + (amount.seconds or _MAX_SECONDS)
        turn = islice(cycle(messages), amount.calls)

        async def work(turn: Iterator[bytes]) -> None:
            for message in turn:
                asked = time.perf_counter()
                if asked >= end:
                    return
                await ask(message)
                latencies.append(time.perf_counter() - asked)

        await asyncio.gather(*(work(turn) for _ in range(amount.concurrency)))
        seconds = time.perf_counter() - start
    percentiles = [1000 * latency for latency in quantiles(latencies, n=100, method="inclusive")]
    return Load(len(latencies), seconds, percentiles[49], percentiles[94], percentiles[98])


def main() -> None:
    """Call, and print the measurement as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("method", help=f"a unary method of {_SERVICE}")
    parser.add_argument("data", type=Path, help="messages, each after its length as a varint")
    parser.add_argument("--concurrency", type=int, default=1, metavar="CALLS")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--calls", type=int)
    arguments = parser.parse_args()
    messages = undelimited(arguments.data.read_bytes())
    amount = Amount(arguments.concurrency, arguments.seconds, arguments.calls)
    load = uvloop.run(call(arguments.address, arguments.method, messages, amount))
    print(json.dumps(asdict(load)))


if __name__ == "__main__":
    main()
