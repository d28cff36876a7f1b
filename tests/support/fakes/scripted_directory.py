"""The test's side of the scripted resolver: its distribution, script and record."""

import json
import os
from pathlib import Path
from typing import Any, Final

from tests.support.servers import with_constants

_HERE = Path(__file__).resolve().parents[3]
_ENTRY_POINTS = """\
[queuegate.resolvers]
scripted = tests.support.fakes.scripted_resolver:ScriptedResolver
followed = tests.support.fakes.scripted_resolver:Followed
listing = tests.support.fakes.scripted_resolver:Listing
unopenable = tests.support.fakes.scripted_resolver:Unopenable
broken = tests.support.fakes.no_such_module:Broken
"""

HANGS = 1e6
"""Seconds that no test waits for."""


_GUARD: Final = "identity.guarded_resolver"
_CONSTANTS: Final = {
    "breaker_failures": f"{_GUARD}.BREAKER_FAILURES",
    "breaker_pause": f"{_GUARD}.BREAKER_PAUSE_SECONDS",
    "max_waiting": f"{_GUARD}.MAX_WAITING",
}
"""Constants of the server that a test may change, by the name with which it gives them."""


class ScriptedDirectory:
    """A user directory that gives the answers of a test, starting with the next lookup."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.installed = folder / "installed"
        about = self.installed / "scripted_resolver-1.0.dist-info"
        about.mkdir(parents=True)
        about.joinpath("METADATA").write_text(
            "Metadata-Version: 2.1\nName: scripted-resolver\nVersion: 1.0\n"
        )
        about.joinpath("entry_points.txt").write_text(_ENTRY_POINTS)
        self.script: dict[str, dict[str, Any]] = {}
        self.constants: dict[str, object] = {**with_constants.NEVER_PAUSED}
        """The values of constants of the servers that ask this directory."""
        self.type = "scripted"
        """The resolver type that `resolver` names."""
        self.reset({})

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a server process finds the distribution."""
        paths = [str(self.installed), str(_HERE), os.environ.get("PYTHONPATH", "")]
        search_path = os.pathsep.join(path for path in paths if path)
        return {"PYTHONPATH": search_path, **with_constants.environment(self.constants)}

    def resolver(self, **options: Any) -> dict[str, Any]:
        """Return an entry for `resolvers` in the settings, whose breaker never opens and whose
        lookups never time out on a busy machine, unless the options say so.
        """
        for key, name in _CONSTANTS.items():
            if key in options:
                self.constants[name] = options.pop(key)
        return {
            "type": self.type,
            "folder": str(self.folder),
            "lookup_timeout": "60s",
            **options,
        }

    def reset(self, answers: dict[str, dict[str, Any]]) -> None:
        """Know the given users and no others, and clear the record."""
        for file in ("asked", "released"):
            (self.folder / file).unlink(missing_ok=True)
        self.script = {"*": {"unknown": "not in the script"}}
        self.answer(answers)

    def answer(self, answers: dict[str, dict[str, Any]]) -> None:
        """Change the answers for the given users. `*` stands for all others."""
        self.script |= answers
        new = self.folder / "answers.new"
        new.write_text(json.dumps(self.script))
        new.replace(self.folder / "answers.json")

    def report(self, user: str) -> None:
        """Report a change of a user's groups, to resolvers of the type `followed`."""
        with (self.folder / "changes").open("a") as changes:
            changes.write(f"{user}\n")

    def release(self) -> None:
        """Release the answers that are `held`."""
        (self.folder / "released").touch()

    def asked(self, user: str | None = None) -> int:
        """Return the number of lookups that reached the resolver, for one user or all."""
        record = self.folder / "asked"
        users = record.read_text().splitlines() if record.exists() else []
        return len(users) if user is None else users.count(user)


def settings_file(folder: Path, settings: dict[str, Any]) -> str:
    """Write settings (JSON is YAML), and return the path of the file."""
    path = folder / "queuegate.yaml"
    path.write_text(json.dumps(settings))
    return str(path)
