"""Builds and installs the other servers into the project's ignored folder `.tools/peers`."""

import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Final

from bench.command import CannotMeasure
from tests.support import go_toolchain
from tests.support.go_toolchain import GoError, Program

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".tools" / "peers"

_SOURCES: Final = Path(__file__).parent / "go"
_BUILD_SECONDS: Final = 1800
_GENERATORS: Final = (
    Program("google.golang.org/protobuf", "v1.36.12", "cmd/protoc-gen-go"),
    Program("google.golang.org/grpc/cmd/protoc-gen-go-grpc", "v1.6.2"),
)
_PROTOS: Final = ROOT / "proto"
_SERVICE: Final = "queuegate/v1/access.proto"


def go_program(program: Program) -> Path:
    """Build the program of a Go module if necessary, and return it. Raises CannotMeasure."""
    try:
        return program.built()
    except GoError as error:
        raise CannotMeasure(str(error)) from None


def npm_program(package: str, version: str, program: str) -> Path:
    """Install an npm package with a program, and return the program. Raises CannotMeasure."""
    folder = FOLDER / "npm" / version
    installed = folder / "node_modules" / package / program
    if not installed.exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts"]
        _run(["npm", "install", "--prefix", str(folder), *options, f"{package}@{version}"], folder)
    return installed


def own_go_program(name: str) -> Path:
    """Build a program of `bench/peers/go` and return it. Raises CannotMeasure.

    It is built in a copy, where the stubs of our contract are generated if the program uses them.
    """
    source, copy = _SOURCES / name, FOLDER / "go" / name
    program = FOLDER / "bin" / name
    uses_contract = "/contract" in (source / "main.go").read_text()
    sources = [*source.iterdir()]
    if uses_contract:
        sources += (_PROTOS / file for file in _contract())
    newest = max(file.stat().st_mtime for file in sources)
    if program.exists() and program.stat().st_mtime > newest:
        return program
    shutil.copytree(source, copy, dirs_exist_ok=True)
    if uses_contract:
        _generate_stubs(copy, _module_of(source))
    try:
        go_toolchain.run("build", "-trimpath", "-o", str(program), ".", folder=copy)
    except GoError as error:
        raise CannotMeasure(str(error)) from None
    return program


def module_version(name: str, module: str) -> str:
    """Return the version of a module that a program of `bench/peers/go` requires."""
    text = (_SOURCES / name / "go.mod").read_text()
    match = re.search(rf"^(?:require)?\s+{re.escape(module)} (\S+)", text, re.MULTILINE)
    if match is None:
        raise CannotMeasure(f"{name} does not require {module}")
    return match[1]


def _module_of(source: Path) -> str:
    return (source / "go.mod").read_text().split(maxsplit=2)[1]


def _contract() -> list[str]:
    """Return the files of AccessService's contract: its own, and all files of ours it imports."""
    files = [_SERVICE]
    for file in files:
        imported = re.findall(
            r'^import "(queuegate/.+)";$', (_PROTOS / file).read_text(), re.MULTILINE
        )
        files += (name for name in imported if name not in files)
    return files


def _generate_stubs(folder: Path, module: str) -> None:
    from grpc_tools import protoc

    contract = _contract()
    plugins = [go_program(generator) for generator in _GENERATORS]
    options = [f"module={module}", *(f"M{file}={module}/contract;contract" for file in contract)]
    arguments = [
        "protoc",
        f"-I{_PROTOS}",
        f"-I{files('grpc_tools') / '_proto'}",
    ]
    for plugin in plugins:
        kind = plugin.name.removeprefix("protoc-gen-")
        arguments += [f"--plugin={plugin.name}={plugin}", f"--{kind}_out={folder}"]
        arguments += [f"--{kind}_opt={option}" for option in options]
    if protoc.main([*arguments, *contract]):
        raise CannotMeasure("the contract could not be compiled for Go")


def _run(command: list[str], folder: Path) -> None:
    """Install at low priority. Raises CannotMeasure with the end of the output."""
    if shutil.which(command[0]) is None:
        raise CannotMeasure(f"{command[0]} is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"installing: {' '.join(command)} ...", flush=True)
    try:
        done = subprocess.run(
            ["nice", "-n", "19", *command],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_BUILD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise CannotMeasure(f"{' '.join(command)} took over {_BUILD_SECONDS} s") from None
    if done.returncode:
        raise CannotMeasure(f"`{' '.join(command)}` failed: {done.stderr[-500:]}")
