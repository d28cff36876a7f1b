"""A real ResourceManager of a Hadoop release, from the jars in Maven, in a separate process.

The program beside this module and the jar of `integrations/hadoop` are built once into `.tools`,
with a folder per version of their sources, and processes that need them at the same time wait for
each other.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

RELEASES: Final = ("3.3.6", "3.4.2", "3.5.0")
BUILD_SECONDS: Final = 1200
ANSWER_SECONDS: Final = 900

_PROGRAMS: Final = {
    "resource-manager": Path(__file__).parent,
    "mini-yarn-cluster": Path(__file__).parents[1] / "mini_yarn_cluster",
}
_PROJECT: Final = Path(__file__).parents[4]
_TOOLS: Final = _PROJECT / ".tools"
_UNREACHABLE: Final = re.compile("Could not transfer artifact|Unknown host")
# Hadoop 3.3 opens classes of the JDK, as its own start scripts permit.
_OPEN: Final = [
    f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "net")
]


class Unavailable(Exception):
    """Raised if Maven or Java is absent, or Maven cannot fetch the jars."""


class ResourceManager:
    """A running ResourceManager."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self.folder: Final = log.parent
        """The folder of its logs."""
        self._process = process
        self._log = log
        self.started = self._answer()

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self._log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def ask(self, op: str, **question: Any) -> dict[str, Any]:
        """Return the answer to a question, as described in `Harness.java`."""
        assert self._process.stdin
        print(json.dumps({"op": op, **question}), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        watchdog = threading.Timer(ANSWER_SECONDS, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        if not line:
            message = f"the ResourceManager has ended: {self.log[-4000:]}"
            raise AssertionError(message)
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def running_resource_manager(
    folder: Path,
    release: str,
    files: Mapping[str, Mapping[str, str] | str],
    program: str = "resource-manager",
    main: str = "Harness",
) -> Iterator[ResourceManager]:
    """Start a ResourceManager of a release with configuration files in a folder.

    Each file consists of the properties of Hadoop's XML files, or of a text. With the program
    `mini-yarn-cluster`, a NodeManager runs as well. With the class `GroupsAlone` as `main`, only
    Hadoop's group mapping runs. Raises Unavailable.
    """
    configuration = folder / "conf"
    configuration.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else _xml(content)
        (configuration / name).write_text(text)
    (configuration / "log4j.properties").write_text(_LOGGING + _logging_of_decisions())
    built = harness(release, program)
    classes = f"{configuration}:{hadoop_jar()}:{built}/harness.jar:{built}/lib/*"
    options = ["-Xmx512m", *_OPEN, f"-Dhadoop.log.dir={folder}", f"-Duser.home={folder}"]
    log = folder / "resourcemanager.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            ["java", *options, "-cp", classes, main],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
            cwd=folder,
            env={**os.environ, "JAVA_HOME": _java_home()},
        ) as process,
    ):
        try:
            yield ResourceManager(process, log)
            assert process.stdin
            process.stdin.close()
            process.wait(ANSWER_SECONDS)
        finally:
            process.kill()


def _java_home() -> str:
    """Return the folder of the JDK, with whose `java` YARN starts applications."""
    return str(Path(shutil.which("java") or "java").resolve().parents[1])


def _logging_of_decisions() -> str:
    """Return the example of the page about Hadoop."""
    page = (_PROJECT / "docs" / "reference" / "hadoop.md").read_text()
    example = re.search(r"^```properties\n(log4j\..*?)^```", page, re.MULTILINE | re.DOTALL)
    assert example is not None
    return example[1]


def hadoop_jar() -> Path:
    """Return the shaded jar of `integrations/hadoop`. Raises Unavailable."""
    client, module = _PROJECT / "client" / "java", _PROJECT / "integrations" / "hadoop"
    sources = [
        *(client / "src" / "main").rglob("*.java"),
        *(module / "src" / "main").rglob("*.java"),
    ]
    sources += [*(_PROJECT / "proto").rglob("*.proto"), client / "pom.xml", module / "pom.xml"]

    def build(copy: Path) -> None:
        for folder in ("client/java", "integrations/hadoop", "proto"):
            shutil.copytree(
                _PROJECT / folder,
                copy / folder,
                ignore=shutil.ignore_patterns("target", "test", "node_modules"),
            )
        pom = copy / "integrations" / "hadoop" / "with-client.xml"
        _maven(pom.parent, "-f", str(pom), "package")
        built = copy / "integrations" / "hadoop" / "target" / "queuegate-hadoop.jar"
        built.rename(copy / built.name)

    return _built("queuegate-hadoop", sources, build) / "queuegate-hadoop.jar"


def harness(release: str, program: str = "resource-manager") -> Path:
    """Return the folder with the program and the jars of a release. Raises Unavailable."""
    module = _PROGRAMS[program]
    sources = [*(module / "src").rglob("*.java"), module / "pom.xml"]

    def build(copy: Path) -> None:
        shutil.copy(module / "pom.xml", copy)
        shutil.copytree(module / "src", copy / "src")
        _maven(copy, "package", f"-Dhadoop.version={release}")
        for name in ("harness.jar", "lib"):
            (copy / "target" / name).rename(copy / name)

    return _built(f"{program}-{release}", sources, build)


def _built(name: str, sources: Sequence[Path], build: Any) -> Path:
    """Return a folder of `.tools` with what is built from sources. Build it if it is missing."""
    for program in ("mvn", "javac", "java"):
        if not shutil.which(program):
            raise Unavailable(f"{program} is not on the path")
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(sources))).hexdigest()
    folder = _TOOLS / f"{name}-{digest[:12]}"
    _TOOLS.mkdir(exist_ok=True)
    with (_TOOLS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=_TOOLS) as unfinished:
                build(Path(unfinished))
                shutil.copytree(unfinished, folder)
    return folder


def _maven(folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["nice", "-n", "19", "mvn", "-B", "-q", "-DskipTests", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
    )
    output = done.stdout + done.stderr
    if done.returncode and _UNREACHABLE.search(output):
        raise Unavailable(f"mvn cannot fetch jars: {output[:300]}")
    assert not done.returncode, output


def _xml(properties: Mapping[str, str]) -> str:
    """Return a file of Hadoop's XML format."""
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    return "\n".join(["<configuration>", *lines, "</configuration>", ""])


_LOGGING: Final = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p [%t] %c: %m%n
"""
