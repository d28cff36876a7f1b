"""The load generators: ghz for gRPC, h2load for HTTP/2, and our own."""

import json
import math
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench import ghz
from bench.command import CannotMeasure
from bench.load import connections_for
from bench.peers import h2load, install
from bench.peers.peer import GrpcWire, RestWire, Serving
from bench.peers.questions import Question
from bench.questions import delimited

OWN: Final = "loadgen"
"""The generator in `bench/peers/go`."""

_GRACE_SECONDS: Final = 60
_LONG_SECONDS: Final = 5.0
_MAX_FAILED: Final = 0.5
_TRIES: Final = 3
"""ghz sometimes crashes in its own code."""


@dataclass(frozen=True, slots=True)
class Amount:
    """The amount of load: the seconds, and the number of concurrent calls."""

    seconds: float
    at_once: int
    calls: int | None = None
    """The number of calls to make, however long they take."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement, with latencies in milliseconds."""

    calls: int
    per_second: float
    p50: float
    p99: float
    p999: float
    cpu_seconds: float
    """The server's."""
    failed: int = 0
    """Calls that were refused or not answered, at a fixed rate."""

    @property
    def cpu_seconds_a_million(self) -> float:
        """The server's processor time for a million checks."""
        return self.cpu_seconds / self.calls * 1e6

    @property
    def busy(self) -> float:
        """The fraction of its core that the server used."""
        return self.cpu_seconds / self.calls * self.per_second


class Loads:
    """The questions in the form of one server, and the means to ask them."""

    def __init__(self, serving: Serving, asked: Sequence[Question], folder: Path) -> None:
        """Write the questions to a new folder."""
        folder.mkdir()
        self._serving = serving
        self._folder = folder
        self._questions = folder / "questions"
        # The same question for all servers. Each has to search everywhere for its answer.
        repeated = max((one for one in asked if not one.allowed), key=_depth)
        if isinstance(serving.wire, RestWire):
            if serving.wire.body is not None:
                (folder / "one").write_bytes(serving.wire.body(repeated))
                self._path = serving.wire.path(repeated)
            base = f"http://{serving.running.address}"
            uris = (f"{base}{serving.wire.path(one)}\n" for one in asked)
            self._questions.write_text("".join(uris))
            return
        self._questions.write_bytes(delimited(serving.wire.encode(one) for one in asked))
        one = serving.wire.encode(repeated)
        (folder / "one").write_bytes(b"\0" + len(one).to_bytes(4, "big") + one)
        (folder / "contract").write_bytes(serving.wire.descriptors.SerializeToString())

    def ask(self, amount: Amount) -> Measurement:
        """Ask the questions in turn. Raises CannotMeasure if any remains unanswered."""
        wire = self._serving.wire
        if isinstance(wire, RestWire) and wire.body is not None:
            url = f"http://{self._serving.running.address}{self._path}"
            kind = "--header=content-type: application/json"
            return self._h2load(["--h1", kind, f"--data={self._folder / 'one'}", url], amount)
        if isinstance(wire, RestWire):
            return self._h2load([f"--input-file={self._questions}"], amount)
        return self._ghz(wire, amount)

    def repeat(self, amount: Amount) -> Measurement:
        """Repeat one denied question or, over HTTP, all in turn, with h2load, which needs little
        time itself.
        """
        wire = self._serving.wire
        if isinstance(wire, RestWire):
            return self.ask(amount)
        options = [
            "--header=content-type: application/grpc",
            "--header=te: trailers",
            f"--data={self._folder / 'one'}",
            f"http://{self._serving.running.address}/{wire.method}",
        ]
        return self._h2load(options, amount)

    def as_many(self, amount: Amount) -> Measurement:
        """Ask the questions in turn, with a generator that needs little time itself. Raises
        CannotMeasure as `at_rate` does.
        """
        return self._loadgen(amount.seconds, f"-at-once={amount.at_once}")

    def at_rate(self, rate: float, seconds: float) -> Measurement:
        """Ask `rate` questions per second, whether or not earlier ones are answered. Latencies are
        measured from when a question was due. Raises CannotMeasure if most are not answered, and
        for a server that is not asked over gRPC.
        """
        return self._loadgen(seconds, f"-rate={rate}")

    def _loadgen(self, seconds: float, load: str) -> Measurement:
        if isinstance(self._serving.wire, RestWire):
            raise CannotMeasure("it asks over gRPC only")
        command = [
            str(install.own_go_program(OWN)),
            f"-address={self._serving.running.address}",
            f"-method={self._serving.wire.method}",
            f"-messages={self._questions}",
            f"-seconds={seconds}",
            load,
        ]
        told, cpu = self._run(command, seconds)
        report: dict[str, Any] = json.loads(told)
        answered, failed = len(report["milliseconds"]), report["failed"]
        if failed > _MAX_FAILED * (answered + failed):
            raise CannotMeasure(f"{failed} of {answered + failed} failed: {report['fault']}")
        return replace(_seen(report["milliseconds"], report["seconds"], cpu), failed=failed)

    def _ghz(self, wire: GrpcWire, amount: Amount) -> Measurement:
        output = self._folder / "ghz.json"
        command = [
            str(ghz.find()),
            "--insecure",
            f"--protoset={self._folder / 'contract'}",
            f"--call={wire.method.replace('/', '.')}",
            f"--binary-file={self._questions}",
            f"--timeout={_GRACE_SECONDS}s",
            "--format=json",
            f"--output={output}",
            f"--concurrency={amount.at_once}",
            f"--connections={connections_for(amount.at_once)}",
        ]
        if amount.calls is None:
            command += [f"--duration={amount.seconds}s", "--duration-stop=wait"]
        else:
            command.append(f"--total={amount.calls}")
        _, cpu = self._run([*command, self._serving.running.address], amount.seconds, tries=_TRIES)
        report: dict[str, Any] = json.loads(output.read_text())
        codes = report["statusCodeDistribution"]
        if set(codes) != {"OK"}:
            raise CannotMeasure(f"calls failed: {codes} {report['errorDistribution']}")
        latencies = [call["latency"] / 1e6 for call in report["details"]]
        return _seen(latencies, report["total"] / 1e9, cpu)

    def _h2load(self, options: Sequence[str], amount: Amount) -> Measurement:
        log = self._folder / "h2load.log"
        log.unlink(missing_ok=True)
        options_of_load = h2load.connections(amount.at_once)
        if "--h1" in options:
            # Several streams would be requests that do not wait for answers.
            options_of_load = [f"--clients={amount.at_once}", "--max-concurrent-streams=1"]
        command = ["h2load", "--threads=1", f"--log-file={log}", *options_of_load]
        command.append(f"--duration={amount.seconds * 1000:.0f}ms")
        told, cpu = self._run([*command, *options], amount.seconds)
        try:
            calls, per_second = h2load.done(told)
        except CannotMeasure:
            if amount.seconds >= _LONG_SECONDS:
                raise
            # A slow server may have answered nothing in a short time.
            return self._h2load(options, replace(amount, seconds=_LONG_SECONDS))
        rows = (line.split("\t") for line in log.read_text().splitlines())
        return _seen([int(row[2]) / 1e3 for row in rows], calls / per_second, cpu)

    def _run(self, command: Sequence[str], seconds: float, tries: int = 1) -> tuple[str, float]:
        """Return the output of a generator, and the processor time of the server meanwhile."""
        before = self._serving.running.cpu_seconds()
        try:
            told = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=seconds + _GRACE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CannotMeasure(f"{Path(command[0]).name} did not end in time") from None
        if not told.returncode:
            return told.stdout, self._serving.running.cpu_seconds() - before
        if tries > 1 and "goroutine " in told.stderr:
            return self._run(command, seconds, tries - 1)
        raise CannotMeasure(f"{Path(command[0]).name}: {(told.stderr or told.stdout)[:500]}")


def percentile(ordered: Sequence[float], part: float) -> float:
    """Return the smallest value that is not exceeded by at least that share of all values."""
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def _depth(asked: Question) -> int:
    return asked.queue.count(".")


def _seen(latencies: list[float], seconds: float, cpu_seconds: float) -> Measurement:
    if not latencies:
        raise CannotMeasure("no call was answered in time")
    latencies.sort()
    p50, p99, p999 = (percentile(latencies, part) for part in (0.5, 0.99, 0.999))
    return Measurement(len(latencies), len(latencies) / seconds, p50, p99, p999, cpu_seconds)
