"""Hadoop 3.4.1's own classes, from the jars in Maven, as an oracle in a separate process.

The program beside this module is built once into `.tools`, with a folder per version, and processes
that need it at the same time wait for each other.
"""

import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

BUILD_SECONDS: Final = 1200

_SOURCES: Final = Path(__file__).parent
_TOOLS: Final = Path(__file__).parents[4] / ".tools"
_UNREACHABLE: Final = re.compile("Could not transfer artifact|Unknown host")


class Unavailable(Exception):
    """Raised if Maven or Java is absent, or Maven cannot fetch the jars."""


class Hadoop:
    """A running oracle."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, op: str, **question: Any) -> Any:
        """Return the answer to a question, as described in `Oracle.java`."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps({"op": op, **question}), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


@contextmanager
def running_hadoop() -> Iterator[Hadoop]:
    """Start the oracle. Raises Unavailable."""
    folder = _built()
    with subprocess.Popen(
        ["java", "-cp", f"{folder}/oracle.jar:{folder}/lib/*", "Oracle"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    ) as process:
        try:
            yield Hadoop(process)
        finally:
            process.kill()


def _built() -> Path:
    """Return the folder with the program and its jars."""
    for program in ("mvn", "javac", "java"):
        if not shutil.which(program):
            raise Unavailable(f"{program} is not on the path")
    files = sorted((_SOURCES / "src").rglob("*.java"))
    files.append(_SOURCES / "pom.xml")
    version = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    folder = _TOOLS / f"hadoop-oracle-{version}"
    _TOOLS.mkdir(exist_ok=True)
    with (_TOOLS / "hadoop-oracle.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _build(folder)
    return folder


def _build(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=_TOOLS) as unfinished:
        copy = Path(unfinished)
        shutil.copy(_SOURCES / "pom.xml", copy)
        shutil.copytree(_SOURCES / "src", copy / "src")
        done = subprocess.run(
            ["nice", "-n", "19", "mvn", "-B", "-q", "package"],
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_SECONDS,
        )
        output = done.stdout + done.stderr
        if done.returncode and _UNREACHABLE.search(output):
            raise Unavailable(f"mvn cannot fetch Hadoop's jars: {output[:300]}")
        assert not done.returncode, output
        (copy / "target").rename(folder)
