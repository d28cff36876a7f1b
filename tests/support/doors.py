"""Reads `tests/doors.toml`: where each suite runs, and which suites a change affects."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).parents[2]
FILE: Final = PROJECT / "tests" / "doors.toml"


@dataclass(frozen=True, slots=True)
class Door:
    """A part of `make verify`."""

    name: str
    does: str
    paths: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    """Paths that run after all others, one test at a time."""
    marker: str = ""
    """An expression for `pytest -m`; empty for all tests."""
    again: bool = False
    """Whether it runs the paths of `make test`."""
    command: tuple[str, ...] = ()
    """The command that runs instead of pytest."""
    minutes: int = 0
    """How long it takes alone on a quiet machine with two processors; 0 if it runs a command."""


@dataclass(frozen=True, slots=True)
class Doors:
    """The table of `tests/doors.toml`."""

    steps: Mapping[str, tuple[str, ...]]
    """The steps of `make test`, with their paths and the names of single tests."""
    doors: Mapping[str, Door]
    sources: Mapping[str, tuple[str, ...]]
    """The doors affected by a change below a path."""

    def files_of_step(self, name: str, files: Iterable[str]) -> list[str]:
        """Return the pytest arguments for a step of `make test`: files and single tests."""
        single = [each for each in self.steps[name] if "::" in each]
        return [*(file for file in files if self.place_of(file) == ("test", name)), *single]

    def files_of_door(self, name: str, files: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the files that a door runs in parallel, and those that it runs one at a time."""
        if self.doors[name].again:
            return [file for file in files if (self.place_of(file) or ("",))[0] == "test"], []
        owned = [file for file in files if self.place_of(file) == ("verify", name)]
        alone = [file for file in owned if _longest(file, self.doors[name].alone)]
        return [file for file in owned if file not in alone], alone

    def place_of(self, file: str) -> tuple[str, str] | None:
        """Return where a test file runs: `test` and a step, or `verify` and a door.

        Returns:
            None if the file runs nowhere.

        """
        places = {
            path: ("test", step)
            for step, paths in self.steps.items()
            for path in paths
            if "::" not in path
        }
        for door in self.doors.values():
            places |= dict.fromkeys((*door.paths, *door.alone), ("verify", door.name))
        path = _longest(file, places)
        return None if path is None else places[path]

    def concerned(self, changed: Iterable[str]) -> list[str]:
        """Return the doors affected by changed files, except doors that run a command.

        Args:
            changed: Paths relative to the project.

        """
        every = [name for name, door in self.doors.items() if not door.command]
        names: set[str] = set()
        for file in changed:
            suite, name = self.place_of(file) or ("", "")
            path = _longest(file, self.sources)
            if suite == "verify":
                names.add(name)
            elif path is not None:
                names.update(self.sources[path])
            elif suite != "test":
                names.update(every)
        return [name for name in every if name in names]

    def within(self, names: Iterable[str], minutes: int) -> tuple[list[str], list[str]]:
        """Divide doors into those that run in a number of minutes, the shortest first, and others.

        The minutes are those of two doors at a time.
        """
        left = 2 * minutes
        run: list[str] = []
        others: list[str] = []
        for name in sorted(names, key=lambda name: self.doors[name].minutes):
            left -= self.doors[name].minutes
            (run if left >= 0 else others).append(name)
        return run, others


def read() -> Doors:
    """Read the table."""
    content: dict[str, Any] = tomllib.loads(FILE.read_text())
    return Doors(
        {name: tuple(paths) for name, paths in content["test"].items()},
        {name: _door(name, fields) for name, fields in content["doors"].items()},
        {path: tuple(names) for path, names in content["sources"].items()},
    )


def test_files() -> list[str]:
    """Return all test files, relative to the project."""
    files = (PROJECT / "tests").rglob("test_*.py")
    return sorted(str(path.relative_to(PROJECT)) for path in files)


def _door(name: str, fields: Mapping[str, Any]) -> Door:
    lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
    return Door(name, **{**fields, **lists})


def _longest(file: str, paths: Iterable[str]) -> str | None:
    above = [path for path in paths if file == path or file.startswith(f"{path}/")]
    return max(above, key=len, default=None)
