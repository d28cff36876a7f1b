"""Runs ghz, the load generator for gRPC, and installs it if need be."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from bench.command import CannotMeasure
from bench.load import Amount, Load
from queuegate.v1 import access_pb2

SERVICE: Final = "queuegate.v1.AccessService"

_FOLDER: Final = Path(__file__).parents[1] / ".tools" / "bin"
_MODULE: Final = "github.com/bojand/ghz/cmd/ghz@latest"
_MAX_SECONDS: Final = 300


def find() -> Path:
    """Return the program: the project's own, else that of the path, else a new install."""
    own = _FOLDER / "ghz"
    if own.exists():
        return own
    if found := shutil.which("ghz"):
        return Path(found)
    if shutil.which("go") is None:
        raise CannotMeasure(
            "ghz is not installed, and neither is Go, which would install it: get Go from"
            " https://go.dev/dl. These parts need neither:"
            " python -m bench.decisions, python -m bench.checks, python -m bench.start"
        )
    print(f"Installing {_MODULE} into .tools/bin ...", flush=True)
    environment = {**os.environ, "GOBIN": str(_FOLDER)}
    if subprocess.run(["go", "install", _MODULE], env=environment, check=False).returncode:
        raise CannotMeasure(f"go could not install {_MODULE}")
    return own


def version() -> str:
    """Return the version that ghz was built from, or else the one that it prints."""
    program = find()
    if go := shutil.which("go"):
        told = subprocess.run(
            [go, "version", "-m", program], capture_output=True, text=True, check=False
        )
        for line in told.stdout.splitlines():
            match line.split():
                case ["mod", _, number, *_]:
                    return number
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return (told.stdout or told.stderr).strip()


class Ghz:
    """Calls one server after the other with the same settings."""

    def __init__(self, folder: Path) -> None:
        """Take a folder to write to."""
        self._program = find()
        self._folder = folder
        self._contract = folder / "contract.binpb"
        self._contract.write_bytes(descriptors(access_pb2.DESCRIPTOR).SerializeToString())

    def run(self, address: str, method: str, data: Path, amount: Amount) -> Load:
        """See Generator. Waits for the last answers when the time has passed."""
        output = self._folder / "ghz.json"
        command: list[str] = [
            str(self._program),
            "--insecure",
            f"--protoset={self._contract}",
            f"--call={SERVICE}.{method}",
            f"--binary-file={data}",
            f"--concurrency={amount.concurrency}",
            f"--connections={amount.connections}",
            f"--timeout={_MAX_SECONDS}s",
            "--format=json",
            f"--output={output}",
        ]
        if amount.seconds is not None:
            command += [f"--duration={amount.seconds}s", "--duration-stop=wait"]
        if amount.calls is not None:
            command.append(f"--total={amount.calls}")
        if amount.messages is not None:
            command.append(f"--stream-call-count={amount.messages}")
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
    """Return the descriptors of a file and its dependencies, each after those it needs."""
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
