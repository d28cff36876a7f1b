"""A reader who follows a page, block by block, in a folder like a checkout.

- `console`: the lines after `$ ` are commands. Output that is shown below one is compared: a line
  `...` stands for any lines, `...` in a line for any text. A command without output must succeed.
- `sh`: a script that must succeed.
- A block with `title="NAME"` is a file. A later block must name it.
- `python` without a title: a program that must succeed, or a doctest if it has `>>>`.
- `yaml` without a title: settings of a server, a policy, or objects of Kubernetes; must be valid.
- `json`, `jsonl` without a title: must be valid.

A command that starts a server (`queuegate-server serve …`, `make serve`) is left running until the
page ends or starts another one; with ` &` at its end, until the page ends. Addresses of this
machine get a free port in place of the documented one, and folders such as /etc/queuegate and /run
are below the reader's. The working directory and exported variables last from one command to the
next.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
import yaml

from queuegate_server.settings.load import SettingsError, load_settings
from tests.support.documents import Block, Sample, dialogue
from tests.support.go_toolchain import GHZ, GRPC_HEALTH_PROBE, GRPCURL, HELM, PROMTOOL, GoError
from tests.support.manifests import VERSIONS, check_schemas
from tests.support.servers.free_ports import free_port

CHECKOUT: Final = Path(__file__).parents[3]
_SECONDS: Final = 120
_PATIENCE: Final = 90
"""How long a question is repeated until the answer is as shown: files are read again when they
change, and a busy machine exceeds the time limits of clients.
"""
_ADDRESS: Final = re.compile(r"(127\.0\.0\.1|0\.0\.0\.0|localhost|\[::1?\]):(\d{2,5})\b")
_OWN_FOLDER: Final = re.compile(
    r"(?<![\w./}-])/(?=(?:etc/(?:queuegate|yunikorn|hadoop|spark)|run|var/\w+/queuegate)\b)"
)
_SERVES: Final = re.compile(
    r"(?:\w+=\S+ )*(?:\S*/)?queuegate-server (?:serve|admission(?! manifest))\b"
)
_SERVER_LINE: Final = re.compile(rf"^({_SERVES.pattern}.*|make serve)$", re.MULTILINE)
_ASKS: Final = re.compile(r"(?:\w+=\S+ )*(?:\S*/)?(?:queuegate|grpcurl|curl|python\S*|go) ")
_FOLDERS: Final = ("etc/queuegate", "run/queuegate", "var/log/queuegate")
"""Folders that a package or an administrator has made."""
_COPIED: Final = ("deploy", "examples")
"""Folders of the checkout that a reader may change."""
_HIDDEN: Final = {".git", ".tools", "build", "dist"}
_GO_PROGRAMS: Final = {
    tool.name: tool for tool in (GHZ, GRPCURL, GRPC_HEALTH_PROBE, HELM, PROMTOOL)
}
_OTHER_PROGRAMS: Final = ("curl", "jq", "openssl")
"""Programs that a machine may lack."""


class Reader:
    """Has a folder, ports and variables of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.replaced: dict[str, str] = {}
        """What stands in the page for something that only an environment knows."""
        self.prelude = ""
        """The lines before each doctest, with the names that all of them use."""
        self._ports: dict[str, str] = {}
        self.variables = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "QUEUEGATE_ADDRESS": f"127.0.0.1:{self.port(50051)}",
        }
        self._state = folder / ".variables"
        self._servers: list[subprocess.Popen[bytes]] = []
        self._in_foreground: subprocess.Popen[bytes] | None = None
        for name in _FOLDERS:
            (folder / name).mkdir(parents=True)
        for path in CHECKOUT.iterdir():
            if path.name in _COPIED:
                ignored = shutil.ignore_patterns("target", "node_modules", "made-by-*")
                shutil.copytree(path, folder / path.name, ignore=ignored)
            elif path.name not in _HIDDEN:
                (folder / path.name).symlink_to(path)

    def port(self, documented: int, used: int | None = None) -> int:
        """Return the port that stands for one of the page: `used`, or a free one."""
        key = str(documented)
        if key not in self._ports:
            self._ports[key] = str(used or free_port())
        return int(self._ports[key])

    def write(self, name: str, text: str) -> None:
        """Put a file in place, whole."""
        path = self.folder / self._meant(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.unfinished")
        unfinished.write_text(self._meant(text))
        unfinished.rename(path)

    def follow(self, page: Sequence[Block]) -> None:
        """Carry out every block that is not marked as not run."""
        page = [block for block in page if not block.not_run]
        self._find_programs("".join(block.text for block in page))
        try:
            for number, block in enumerate(page):
                try:
                    self._follow(block, "".join(each.text for each in page[number + 1 :]))
                except AssertionError as error:
                    pytest.fail(f"the block at line {block.line}: {error}", pytrace=False)
        finally:
            for server in self._servers:
                _stop(server)

    def _follow(self, block: Block, rest: str) -> None:
        if block.file:
            self.write(block.file, block.text)
            assert Path(block.file).name in rest, f"no later block names {block.file}"
        elif block.language == "console":
            for sample in dialogue(block.text):
                self._run(sample)
        elif block.language == "sh":
            for part in _SERVER_LINE.split(block.text):
                if part.strip():
                    self._run(Sample(part.strip()))
        elif block.language == "python":
            doctest = ">>>" in block.text
            name = "block.txt" if doctest else "block.py"
            self.write(name, f"{self.prelude}{block.text}" if doctest else block.text)
            options = "-m doctest -o ELLIPSIS " if doctest else ""
            self._run(Sample(f"python {options}{self.folder}/{name}"))
        elif block.language == "yaml":
            self._check_yaml(block.text)
        else:
            lines = {"json": [block.text], "jsonl": block.text.splitlines()}.get(block.language)
            assert lines, "a block of this language needs a title, or a mark"
            for line in lines:
                json.loads(line)

    def _run(self, sample: Sample) -> None:
        command = sample.command
        if command == "make serve":
            command = (
                "queuegate-server serve --policy examples/queues.yaml --listen 127.0.0.1:50051"
            )
        if _SERVES.match(command):
            self._serve(command, sample.shown)
            return
        end = time.monotonic() + (_PATIENCE if _ASKS.match(command) else 0)
        while True:
            done = self._execute(command)
            outputs = [self._documented(each) for each in (done.stdout, done.stderr)]
            if sample.shown:
                right = any(sample.shows("".join(each)) for each in (outputs, outputs[::-1]))
            else:
                right = done.returncode == 0
            if right:
                return
            assert time.monotonic() < end, (
                f"{command}\nended with {done.returncode} and printed:\n{''.join(outputs)}"
            )
            time.sleep(0.5)

    def _execute(self, command: str) -> "subprocess.CompletedProcess[str]":
        script = f"""\
if [ -e {self._state} ]; then . {self._state}; cd "$PWD"; fi
trap 'export -p > {self._state}' EXIT
set -e
{self._meant(command)}
"""
        return subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )

    def _serve(self, command: str, shown: str | None) -> None:
        command, background, _ = command.partition(" &")
        if not background and self._in_foreground:
            _stop(self._in_foreground)
        if " serve" in command and not self._has_address(command):
            command += " --listen 127.0.0.1:50051"
        log = self.folder / f".server-{len(self._servers)}"
        before = f'. {self._state}; cd "$PWD"; ' if self._state.exists() else ""
        with log.open("wb") as output, log.with_suffix(".errors").open("wb") as errors:
            server = subprocess.Popen(
                ["bash", "-c", f"{before}exec env {self._meant(command)}"],
                cwd=self.folder,
                env=self.variables,
                stdout=output,
                stderr=errors,
            )
        self._servers.append(server)
        if not background:
            self._in_foreground = server
        end = time.monotonic() + _SECONDS
        sample = Sample(command, shown or "...\n")
        while not (text := self._documented(log.read_text())) or not sample.shows(text):
            assert server.poll() is None, log.with_suffix(".errors").read_text()
            assert time.monotonic() < end, f"{command}\nprinted:\n{text}"
            time.sleep(0.02)

    def _has_address(self, command: str) -> bool:
        if " --listen" in command:
            return True
        config = re.search(r" --config[ =](\S+)", self._meant(command))
        if config is None:
            return False
        return "listen" in yaml.safe_load((self.folder / config[1]).read_text())

    def _check_yaml(self, text: str) -> None:
        documents = list(yaml.safe_load_all(text))
        assert all(isinstance(each, dict) for each in documents), "no mapping"
        if all("kind" in each for each in documents):
            check_schemas(documents, VERSIONS[-1])
        elif isinstance(documents[0].get("partitions"), list):
            self.write("block.yaml", text)
            self._run(Sample("queuegate-server validate block.yaml"))
        else:
            _check_settings(text)

    def _find_programs(self, text: str) -> None:
        for name in _OTHER_PROGRAMS:
            if re.search(rf"^(?:\$ )?{name} ", text, re.MULTILINE) and not shutil.which(name):
                pytest.skip(f"{name} is not on the path")
        for name, program in _GO_PROGRAMS.items():
            if re.search(rf"^(?:\$ )?{name} ", text, re.MULTILINE):
                try:
                    folder = program.built().parent
                except GoError as error:
                    pytest.skip(str(error))
                self.variables["PATH"] = f"{folder}{os.pathsep}{self.variables['PATH']}"

    def _meant(self, text: str) -> str:
        for written, meant in self.replaced.items():
            text = text.replace(written, meant)
        text = _ADDRESS.sub(lambda found: f"{found[1]}:{self.port(int(found[2]))}", text)
        return _OWN_FOLDER.sub(f"{self.folder}/", text)

    def _documented(self, output: str) -> str:
        for documented, port in self._ports.items():
            output = re.sub(rf":{port}\b", f":{documented}", output)
        for written, meant in self.replaced.items():
            output = output.replace(meant, written)
        return output.replace(f"{self.folder}/", "/")


def _check_settings(text: str) -> None:
    """Only files that are not here may be wrong."""
    try:
        load_settings(Path("the settings"), content=text.encode())
    except SettingsError as error:
        found = [each.message for each in error.diagnostics]
        wrong = [message for message in found if "cannot be read" not in message]
        assert wrong == [], wrong


def _stop(server: "subprocess.Popen[bytes]") -> None:
    if server.poll() is None:
        server.terminate()
    server.wait(_SECONDS)
