"""Expands variables in Hadoop properties.

Hadoop looks up a variable first in its process's environment and then in all its properties
(`Configuration.substituteVars`). Only the properties in the given files are known here, so a
variable that may be set elsewhere is an error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.diagnostics import Positioned, quoted
from queuegate_server.formats.source_text import MAX_BYTES

VARIABLE: Final = re.compile(r"\$\{([^}$ ]+)\}")
_MAX_SUBSTITUTIONS: Final = 20
"""The maximum number of substitutions, the same as `MAX_SUBST` in Hadoop's `Configuration`."""
_MAX_VALUE_LENGTH: Final = 1_048_576
_PROCESS_PREFIXES: Final = (
    "awt.", "env.", "file.", "java.", "jdk.", "line.", "native.", "os.", "path.", "proc_",
    "stderr.", "stdout.", "sun.", "user.",
)  # fmt: skip
"""Prefixes of variables set by Hadoop's environment or the JVM."""
_PROCESS_NAMES: Final = frozenset({
    "hadoop.home.dir", "hadoop.id.str", "hadoop.log.dir", "hadoop.log.file", "hadoop.policy.file",
    "hadoop.root.logger", "hadoop.security.logger", "rm.audit.logger", "service.libdir",
    "yarn.home.dir", "yarn.id.str", "yarn.log.dir", "yarn.log.file", "yarn.policy.file",
    "yarn.root.logger",
})  # fmt: skip
"""System properties set by Hadoop's start scripts."""


class LocatedText(NamedTuple):
    """A value and its position."""

    line: int
    column: int
    text: str
    file: str = ""
    """The file that contains the value; empty if only one file is read."""


class VariableError(ValueError):
    """Raised for a variable that cannot be expanded. The message gives the reason."""

    def __init__(self, message: str, position: Positioned) -> None:
        """`position` is the position of the value that contains the variable."""
        super().__init__(message)
        self.position = position


@dataclass(slots=True)
class ExpansionBudget:
    """A budget of characters for expansions, so that a small file cannot exhaust memory."""

    left: int = MAX_BYTES


def expand(
    name: str, properties: Mapping[str, LocatedText], budget: ExpansionBudget, files: str
) -> str:
    """Return the named property's value with its variables expanded.

    `properties` contains all unexpanded properties by name. `files` names their source in messages.
    Raises VariableError if a variable is unknown or recursive, or the value becomes too long.
    """
    values = [properties[name]]
    text = values[0].text
    for _ in range(_MAX_SUBSTITUTIONS):
        match = VARIABLE.search(text)
        if match is None:
            return text
        variable = match[1].strip(TRIMMED)
        # Variables may also arise where values are joined; these are located at the first value.
        position = next((one for one in reversed(values) if match[0] in one.text), values[0])
        if variable.startswith(_PROCESS_PREFIXES) or variable in _PROCESS_NAMES:
            message = f"{quoted(variable)} comes from the environment of Hadoop's process"
            raise VariableError(message, position)
        if variable not in properties:
            raise VariableError(f"{quoted(variable)} is not set in {files}", position)
        value = properties[variable]
        budget.left -= len(text) + len(value.text)
        if budget.left < 0:
            message = "the values in the file are too long in total"
            raise VariableError(message, position)
        if variable in _reachable(value.text, properties):
            raise VariableError(f"{quoted(variable)} contains itself", value)
        values.append(value)
        text = f"{text[: match.start()]}{value.text}{text[match.end() :]}"
        if len(text) > _MAX_VALUE_LENGTH:
            raise VariableError(f"{quoted(variable)} makes the value too long", position)
    raise VariableError(f"the value has {_MAX_SUBSTITUTIONS} or more variables", values[0])


def _reachable(text: str, properties: Mapping[str, LocatedText]) -> set[str]:
    """Return up to _MAX_SUBSTITUTIONS variables used in `text`, directly or through other
    variables.
    """
    reachable: set[str] = set()
    stack = [text]
    while stack:
        for match in VARIABLE.finditer(stack.pop()):
            name = match[1].strip(TRIMMED)
            if name not in reachable and name in properties:
                reachable.add(name)
                stack.append(properties[name].text)
            if len(reachable) >= _MAX_SUBSTITUTIONS:
                return reachable
    return reachable
