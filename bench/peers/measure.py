"""Starts all servers, compares their answers, and puts the same loads on each in turn."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import grpc

from bench.command import CannotMeasure
from bench.peers.ask import check
from bench.peers.contract import Queuegate
from bench.peers.generators import Amount, Loads, Measurement
from bench.peers.peer import Peer, RestWire, Serving
from bench.peers.peers import PEERS, YARDSTICK
from bench.peers.policy import SEED, Policy, generate
from bench.peers.questions import Question, Questions

MIDDLE: Final = 50
"""The concurrency where only one is measured."""

HALF: Final = "50%"
HALF_OF_GHZ: Final = "50% of ghz's"
"""The offered rates, as fractions of the peak."""

_FAULTS: Final = (CannotMeasure, grpc.RpcError, OSError, subprocess.SubprocessError, ValueError)


@dataclass(frozen=True, slots=True)
class Scale:
    """The amount of measuring."""

    rounds: int
    starts: int
    seconds: float
    at_once: Sequence[int]
    parts_of_peak: Sequence[float]
    sample: int
    questions: int
    new_questions: int
    """Enough for `seconds`, because a shorter measurement varies too much."""


FULL: Final = Scale(5, 5, 1.0, (1, MIDDLE, 200), (0.25, 0.5, 0.75, 0.9), 2_000, 4_000, 20_000)
QUICK: Final = Scale(1, 1, 0.8, (1, MIDDLE), (0.5, 0.9), 500, 1_000, 20_000)


@dataclass(slots=True)
class Result:
    """The results of one server."""

    name: str
    how: str
    version: str = ""
    error: str = ""
    """Why the measurement failed or was incomplete."""
    overload: str = ""
    """How it failed at a high rate."""
    start_seconds: list[float] = field(default_factory=list)
    """From the start of the process to the first correct answer."""
    mib_at_start: float = 0
    mib_under_load: float = 0
    """The largest value after a measurement."""
    closed: dict[int, list[Measurement]] = field(default_factory=dict)
    """By concurrency."""
    repeated: list[Measurement] = field(default_factory=list)
    """A single repeated question."""
    new: list[Measurement] = field(default_factory=list)
    """Questions never asked before."""
    most: list[Measurement] = field(default_factory=list)
    """With our own generator: the peak."""
    opened: dict[str, list[tuple[float, Measurement]]] = field(default_factory=dict)
    """The offered rate and the measurement, by fraction of the peak."""


@dataclass(slots=True)
class _Runner:
    """A server under measurement."""

    peer: Peer
    result: Result
    stack: ExitStack
    serving: Serving | None = None
    loads: Loads | None = None


def measure(scale: Scale, folder: Path, only: Sequence[str]) -> list[Result]:
    """Measure all servers, or our own and those whose names contain one of some words.

    Raises CannotMeasure if no name contains a word, or if our own server fails, since the others
    are compared with its answers.
    """
    for word in only:
        if not any(word in peer.name for peer in PEERS):
            names = "; ".join(peer.name for peer in PEERS)
            raise CannotMeasure(f"no server has {word!r} in its name; there are: {names}")
    policy = generate()
    questions = Questions(policy, SEED)
    sample, asked = questions.mixed(scale.sample), questions.mixed(scale.questions)
    wanted = [
        peer
        for peer in PEERS
        if isinstance(peer, Queuegate) or not only or any(word in peer.name for word in only)
    ]
    runners = [_Runner(peer, Result(peer.name, peer.how), ExitStack()) for peer in wanted]
    for runner in runners:
        with _faults(runner):
            runner.result.version = runner.peer.install()
    with ExitStack() as all_stacks:
        for number, runner in enumerate(runners):
            all_stacks.push(runner.stack)
            if not runner.result.error:
                with _faults(runner):
                    _start(runner, policy, scale, sample, asked, folder / str(number))
        for runner in runners:
            if runner.peer is YARDSTICK and runner.result.error:
                raise CannotMeasure(f"{runner.peer.name}: {runner.result.error}")
        _say("warming up")
        _each(runners, 0, lambda runner: _loads(runner).ask(Amount(scale.seconds, MIDDLE)))
        for number in range(scale.rounds):
            _say(f"throughput, round {number + 1} of {scale.rounds}")
            new = questions.mixed(scale.new_questions)
            _each(runners, number, partial(_throughput, scale=scale, new=new, folder=folder))
        for number in range(scale.rounds):
            _say(f"latency, round {number + 1} of {scale.rounds}")
            _each(runners, number, partial(_latency, scale=scale))
    return [runner.result for runner in runners]


def _start(
    runner: _Runner,
    policy: Policy,
    scale: Scale,
    sample: Sequence[Question],
    asked: Sequence[Question],
    folder: Path,
) -> None:
    folder.mkdir()
    result = runner.result
    for number in range(scale.starts):
        runner.stack.close()
        start = time.perf_counter()
        serving = runner.stack.enter_context(runner.peer.serve(policy, folder / f"start{number}"))
        check(serving, sample[:1])
        result.start_seconds.append(time.perf_counter() - start)
    result.mib_at_start = serving.running.resident_mib()
    _say(f"{runner.peer.name}: {len(sample)} answers")
    check(serving, sample)
    runner.serving = serving
    runner.loads = Loads(serving, asked, folder / "loads")


def _throughput(runner: _Runner, *, scale: Scale, new: Sequence[Question], folder: Path) -> None:
    result, loads = runner.result, _loads(runner)
    for at_once in scale.at_once:
        sample = loads.ask(Amount(scale.seconds, at_once))
        result.closed.setdefault(at_once, []).append(sample)
    result.repeated.append(loads.repeat(Amount(scale.seconds, MIDDLE)))
    if runner.serving and not isinstance(runner.serving.wire, RestWire):
        result.most.append(loads.as_many(Amount(scale.seconds, MIDDLE)))
    if runner.peer.remembers and runner.serving:
        calls = min(len(new), int(result.closed[MIDDLE][-1].per_second * scale.seconds))
        place = folder / f"new-{time.monotonic_ns()}"
        once = Loads(runner.serving, new[:calls], place)
        result.new.append(once.ask(Amount(scale.seconds, MIDDLE, calls=calls)))
    _note_memory(runner)


def _latency(runner: _Runner, *, scale: Scale) -> None:
    result = runner.result
    if not result.most:
        return
    peak, peak_of_ghz = (
        statistics.median(one.per_second for one in rounds)
        for rounds in (result.most, result.closed[MIDDLE])
    )
    rates = {HALF_OF_GHZ: peak_of_ghz / 2}
    rates.update((f"{part:.0%}", peak * part) for part in scale.parts_of_peak)
    for name, rate in rates.items():
        try:
            sample_at_rate = _loads(runner).at_rate(rate, scale.seconds)
        except CannotMeasure as error:
            result.overload = f"at {name} of its peak: {_line(error)}"
            break
        result.opened.setdefault(name, []).append((rate, sample_at_rate))
    _note_memory(runner)


def _note_memory(runner: _Runner) -> None:
    if runner.serving:
        now = runner.serving.running.resident_mib()
        runner.result.mib_under_load = max(now, runner.result.mib_under_load)


def _loads(runner: _Runner) -> Loads:
    if runner.loads is None:
        raise CannotMeasure("it does not serve")
    return runner.loads


def _each(runners: Sequence[_Runner], number: int, work: Callable[[_Runner], object]) -> None:
    """Do something with each server that has not failed, in reverse order every other time."""
    for runner in runners if number % 2 == 0 else reversed(runners):
        if not runner.result.error:
            with _faults(runner):
                work(runner)


@contextmanager
def _faults(runner: _Runner) -> Iterator[None]:
    """Record the fault of a server in its result, and end that server."""
    try:
        yield
    except _FAULTS as error:
        runner.result.error = _line(error)
        _say(f"{runner.peer.name}: {runner.result.error}")
        runner.stack.close()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[-600:] or type(error).__name__


def _say(text: str) -> None:
    print(text, flush=True, file=sys.stderr)
