"""The declared dependencies are those imported, no more and no less."""

import ast
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.e2e.packaging.dockerfile import PROJECT
from tests.e2e.packaging.test_project import CONFIGURATION

CLIENT = PROJECT / "client" / "queuegate"
SERVER = PROJECT / "server" / "queuegate_server"
OURS = {"queuegate", "queuegate_server"}


def declared(texts: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in texts}


PLAIN = declared(CONFIGURATION["project"]["dependencies"])
EXTRA = declared(CONFIGURATION["project"]["optional-dependencies"]["server"])
LDAP = declared(CONFIGURATION["project"]["optional-dependencies"]["ldap"])
NATIVE = declared(CONFIGURATION["project"]["optional-dependencies"]["native"])
REDIS = declared(CONFIGURATION["project"]["optional-dependencies"]["redis"])
TRACING = declared(CONFIGURATION["project"]["optional-dependencies"]["tracing"])
# These bring the server's.
ADMISSION = declared(CONFIGURATION["project"]["optional-dependencies"]["admission"]) - {"queuegate"}
CONSOLE = declared(CONFIGURATION["project"]["optional-dependencies"]["console"]) - {"queuegate"}


def modules(folder: Path) -> Iterator[str]:
    """Yield the dotted names that the code of a folder, or a file, imports absolutely."""
    for path in [folder] if folder.is_file() else folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                # `from google.protobuf import x`: x may distinguish the distributions.
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def distributions(folder: Path) -> set[str]:
    """Return the distributions that the code of a folder imports."""
    by_top_level = packages_distributions()
    found: set[str] = set()
    for module in modules(folder):
        top = module.partition(".")[0]
        if top in OURS or top in sys.stdlib_module_names:
            continue
        if top == "google":
            shared = module.startswith("google.protobuf")
            found.add("protobuf" if shared else "googleapis-common-protos")
        else:
            found |= {canonicalize_name(name) for name in by_top_level[top]}
    return {name for name in found if not name.startswith("types-")}


def test_client_imports_what_the_plain_install_brings() -> None:
    assert distributions(CLIENT) == PLAIN


def test_server_imports_what_its_extras_bring() -> None:
    imported = distributions(SERVER) - PLAIN
    # The parts of pydantic come with it; so do packages that share OpenTelemetry's name.
    brought = {name for name in imported if name.startswith("opentelemetry-")} | {"pydantic-core"}
    # The server's extra raises a floor of the client's.
    assert imported - brought == (EXTRA | LDAP | ADMISSION | CONSOLE | NATIVE | REDIS) - PLAIN
    assert brought >= TRACING


def test_only_tracing_needs_its_extra() -> None:
    users = [
        path.relative_to(SERVER).as_posix()
        for path in SERVER.rglob("*.py")
        if any(module.startswith("opentelemetry") for module in modules(path))
    ]
    assert users == ["observe/tracing.py"]


def test_only_the_ldap_resolver_needs_its_extra() -> None:
    ldap = SERVER / "identity" / "resolvers" / "ldap"
    assert distributions(ldap) - EXTRA - {"pydantic-core"} == LDAP


@pytest.mark.parametrize("folder", [CLIENT, SERVER])
def test_packages_are_typed(folder: Path) -> None:
    assert (folder / "py.typed").read_bytes() == b""
