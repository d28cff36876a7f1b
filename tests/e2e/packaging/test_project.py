"""Rules for the project as a whole: its layout, its locks, its files."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import run
from tests.e2e.packaging.dockerfile import PROJECT
from tests.e2e.packaging.locks import pinned

CONFIGURATION = tomllib.loads((PROJECT / "pyproject.toml").read_text())
FOLDERS = {
    *(".ci", ".github", "bench", "client", "deploy", "docs", "examples"),
    "integrations",
    *("proto", "server", "tests"),
}
FILES = {
    ".dockerignore",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "RELEASING.md",
    "SECURITY.md",
    "mkdocs.yml",
    "pyproject.toml",
}
LOCKS = {
    "server": PROJECT / "deploy" / "requirements.txt",
    "image": PROJECT / "deploy" / "image-requirements.txt",
    "build": PROJECT / "deploy" / "build-requirements.txt",
    "sbom": PROJECT / "deploy" / "sbom-requirements.txt",
    "tests": PROJECT / "tests" / "requirements.txt",
    "fuzz": PROJECT / "tests" / "fuzz" / "requirements.txt",
    "go": PROJECT / "tests" / "go-requirements.txt",
    "floor": PROJECT / "tests" / "e2e" / "packaging" / "floor-requirements.txt",
}


IGNORED = [*(PROJECT / ".gitignore").read_text().split(), ".git"]


def is_ignored(name: str) -> bool:
    """Return whether .gitignore excludes files of this name."""
    return any(fnmatch(name, pattern.rstrip("/")) for pattern in IGNORED)


def project_files() -> list[Path]:
    """All files that belong to the project, found without git: a release has none."""
    found = [PROJECT / name for name in FILES]
    for folder in sorted(FOLDERS):
        found += [
            path
            for path in (PROJECT / folder).rglob("*")
            if path.is_file() and not any(is_ignored(part) for part in path.parts)
        ]
    return found


def test_top_level_is_as_designed() -> None:
    names = {path.name for path in PROJECT.iterdir() if not is_ignored(path.name)}
    assert names == FOLDERS | FILES


def test_contributing_says_what_lies_where() -> None:
    text = (PROJECT / "CONTRIBUTING.md").read_text().partition("## Folders")[2]
    named = re.findall(r"^\| `([^`|]*/)` \|", text, re.MULTILINE)
    assert [name for name in named if not (PROJECT / name).is_dir()] == []
    assert FOLDERS - {".ci"} <= {Path(name).parts[0] for name in named}


def test_contributing_lists_every_command() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    listed = re.findall(r"`make ([a-z-]+)`", (PROJECT / "CONTRIBUTING.md").read_text())
    assert set(targets) - {"help"} <= set(listed)


def test_architecture_says_what_each_part_of_the_server_holds() -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE))
    server = PROJECT / "server" / "queuegate_server"
    parts = {path.name for path in server.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert named == parts | {"policy"}


def test_architecture_shows_the_import_contract() -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text().partition("## Imports")[2]
    chain = [
        set(layer.split(", "))
        for layer in " ".join(text.split("```")[1].split()).split(
            " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "
        )
    ]
    contracts = CONFIGURATION["tool"]["importlinter"]["contracts"]
    [layers] = [
        each["layers"] for each in contracts if each.get("containers") == ["queuegate_server"]
    ]
    enforced = [set(layer.split(" | ")) for layer in layers if layer != "__main__"]
    # The policy core is part of the client.
    assert chain == [*enforced, {"policy"}]


def group(name: str) -> list[str]:
    """The requirements of a dependency group, with those that it includes."""
    found: list[str] = []
    for item in CONFIGURATION["dependency-groups"][name]:
        found += [item] if isinstance(item, str) else group(item["include-group"])
    return found


def requirements(lock: str) -> list[Requirement]:
    project = CONFIGURATION["project"]
    server = project["dependencies"] + project["optional-dependencies"]["server"]
    every = [text for extra in project["optional-dependencies"].values() for text in extra]
    image = project["dependencies"] + [text for text in every if not text.startswith("queuegate[")]
    texts = {"server": server, "image": image, "tests": server + group("dev")}
    texts |= {name: group(name) for name in ("build", "sbom", "fuzz", "go", "floor")}
    return [Requirement(text) for text in texts[lock]]


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_satisfies_pyproject(lock: str) -> None:
    pins = pinned(LOCKS[lock])
    for requirement in requirements(lock):
        name = canonicalize_name(requirement.name)
        assert name in pins, "run `make lock`"
        assert requirement.specifier.contains(pins[name]), f"{name}: run `make lock`"


@pytest.mark.parametrize("lock", ["server", "image", "build", "sbom"])
def test_tests_run_with_the_versions_that_are_deployed(lock: str) -> None:
    """They take the driver for LDAP, which the linters do not need, from the image's lock."""
    apart = {"python-ldap": pinned(LOCKS["image"])["python-ldap"]}
    assert pinned(LOCKS[lock]).items() <= (pinned(LOCKS["tests"]) | apart).items()


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes(lock: str) -> None:
    text = LOCKS[lock].read_text()
    pins = re.findall(
        r"^[a-z0-9-]+==[^\n]*(?:\\\n +--hash=sha256:[0-9a-f]{64} ?)+", text, re.MULTILINE
    )
    assert len(pins) == len(pinned(LOCKS[lock])) > 0


def test_build_backend_is_locked() -> None:
    names = {Requirement(text).name for text in CONFIGURATION["build-system"]["requires"]}
    assert names <= set(pinned(LOCKS["build"]))


def test_no_file_names_a_package_registry() -> None:
    registries = re.compile(
        rb"\b(?:pypi|pythonhosted|(?:proxy|sum)\.golang|npmjs|jfrog)\.(?:org|io|com)\b"
        rb"|--(?:extra-)?index-url|--find-links",
        re.IGNORECASE,
    )
    here = Path(__file__)
    found = [
        str(path.relative_to(PROJECT))
        for path in project_files()
        if path != here and registries.search(path.read_bytes())
    ]
    assert found == []


def test_no_text_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    home = re.compile(rb"(?<![\w.])/(?:home|root|Users|work)/[a-z]")
    here = Path(__file__)
    found = [
        str(path.relative_to(PROJECT))
        for path in project_files()
        if path != here and home.search(path.read_bytes())
    ]
    assert found == []


def test_python_floor_is_the_same_everywhere() -> None:
    floor = CONFIGURATION["project"]["requires-python"].removeprefix(">=")
    assert CONFIGURATION["tool"]["mypy"]["python_version"] == floor
    assert CONFIGURATION["tool"]["ruff"]["target-version"] == "py" + floor.replace(".", "")
    assert f"--python-version {floor}" in (PROJECT / "Makefile").read_text()


def test_continuous_integration_runs_the_test_command() -> None:
    script = PROJECT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    lines = script.read_text().splitlines()
    assert "make test" in lines
    assert any(re.fullmatch(r"make verify-touched WITHIN=\d+", line) for line in lines)


@pytest.mark.parametrize("tool", ["ruff check .", "ruff format --check .", "mypy", "lint-imports"])
def test_test_command_runs_every_checker(tool: str) -> None:
    commands = [" ".join(command) for step in run.checks() for command in step.commands]
    assert any(f"/{tool}" in command for command in commands)
    makefile = (PROJECT / "Makefile").read_text()
    assert "\n\t@$(BIN)/python -m tests.run test\n" in makefile


def test_documents_name_tests_that_exist() -> None:
    missing = {
        name
        for path in project_files()
        if path.suffix == ".md"
        for name in re.findall(r"(?<!policy-)\btests/[\w/-]+(?:\.\w+)?", path.read_text())
        if not (PROJECT / name).exists()
    }
    assert missing == set()


def test_architecture_names_modules_that_exist() -> None:
    roots = [PROJECT, PROJECT / "server" / "queuegate_server", PROJECT / "client" / "queuegate"]
    named = re.findall(
        r"`([\w/]+/(?:\w+\.py)?|\w+\.py)`", (PROJECT / "ARCHITECTURE.md").read_text()
    )
    assert len(named) > 30
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []
