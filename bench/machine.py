"""The machine and the versions of a measurement, without which its figures mean nothing."""

import os
import platform
import re
import shutil
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

from tests.support.go_toolchain import GHZ

_ROOT = Path(__file__).parents[1]
_DISTRIBUTIONS = ("grpcio", "pygrpc-native", "protobuf", "uvloop", "python-ldap")
_LOOPS = 1_000_000


def described() -> list[tuple[str, str]]:
    """Return the machine, the versions and the commit, by name."""
    return [
        ("machine", f"{_cpu_model()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB memory"),
        ("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ("Python", f"{platform.python_implementation()} {platform.python_version()}"),
        *((name, version(name)) for name in _DISTRIBUTIONS),
        ("ghz", GHZ.version),
        ("h2load", _h2load()),
        ("commit", _commit()),
    ]


def load() -> float:
    """Return the average number of runnable processes in the last minute."""
    return os.getloadavg()[0]


def milliseconds_of_a_loop() -> float:
    """Return the processor time of a fixed loop, which shows the current speed of the machine.

    A processor shared with other machines takes up to twice as long.
    """
    start = time.thread_time_ns()
    for _ in range(_LOOPS):
        pass
    return (time.thread_time_ns() - start) / 1e6


def _cpu_model() -> str:
    match = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else platform.processor() or "unknown processor"


def _memory_gib() -> float:
    return os.sysconf("SC_PAGESIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _h2load() -> str:
    if shutil.which("h2load") is None:
        return "not installed"
    told = subprocess.run(["h2load", "--version"], capture_output=True, text=True, check=False)
    return told.stdout.strip().removeprefix("h2load ")


def _commit() -> str:
    commit = _git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    written = (":!bench/RESULTS.md", ":!bench/PEERS.md")
    changed = _git("status", "--porcelain", "--", "server", "client", "bench", *written)
    return f"{commit}, with changes that are not committed" if changed else commit


def _git(*arguments: str) -> str:
    if shutil.which("git") is None:
        return ""
    told = subprocess.run(
        ["git", "-C", _ROOT, *arguments], capture_output=True, text=True, check=False
    )
    return told.stdout.strip()
