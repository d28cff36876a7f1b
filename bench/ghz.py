"""Runs ghz, the load generator for gRPC."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from bench.command import CannotMeasure
from bench.load import Amount, Load, connections_for
from bench.peers.install import go_program
from queuegate.v1 import access_pb2
from tests.support.go_toolchain import GHZ

SERVICE: Final = "queuegate.v1.AccessService"

_MAX_SECONDS: Final = 300


def find() -> Path:
    """Return the program, building it if necessary. Raises CannotMeasure."""
    return go_program(GHZ)


class Ghz:
    """Calls one server after the other with the same settings."""

    def __init__(self, folder: Path) -> None:
        """Create a generator with a folder for its files."""
        self._program = find()
        self._folder = folder
        self._contract = folder / "contract.binpb"
        self._contract.write_bytes(descriptors(access_pb2.DESCRIPTOR).SerializeToString())

    def run(self, address: str, method: str, data: Path, amount: Amount) -> Load:
        """See Generator. When the time is up, waits for the last answers."""
        output = self._folder / "ghz.json"
        command: list[str] = [
            str(self._program),
            "--insecure",
            f"--protoset={self._contract}",
            f"--call={SERVICE}.{method}",
            f"--binary-file={data}",
            f"--concurrency={amount.concurrency}",
            f"--connections={amount.connections or connections_for(amount.concurrency)}",
            f"--timeout={_MAX_SECONDS}s",
            "--format=json",
            f"--output={output}",
        ]
        if amount.seconds is not None:
            command += [f"--duration={amount.seconds}s", "--duration-stop=wait"]
        if amount.calls is not None:
            command.append(f"--total={amount.calls}")
        told = subprocess.run(
            [*command, address],
            capture_output=True,
            text=True,
            timeout=_MAX_SECONDS,
            check=False,
        )
        if told.returncode:
            raise CannotMeasure(f"ghz failed: {told.stderr or told.stdout}")
        report: dict[str, Any] = json.loads(output.read_text())
        codes = report["statusCodeDistribution"]
        if set(codes) != {"OK"}:
            raise CannotMeasure(f"calls failed: {codes} {report['errorDistribution']}")
        latency = {
            entry["percentage"]: entry["latency"] / 1e6 for entry in report["latencyDistribution"]
        }
        seconds = report["total"] / 1e9
        return Load(report["count"], seconds, latency[50], latency[95], latency[99])


def descriptors(file: Any) -> FileDescriptorSet:
    """Return the descriptors of a file and its dependencies, each after its own dependencies."""
    files = FileDescriptorSet()
    added: set[str] = set()

    def add(one: Any) -> None:
        if one.name not in added:
            added.add(one.name)
            for needed in one.dependencies:
                add(needed)
            one.CopyToProto(files.file.add())

    add(file)
    return files
