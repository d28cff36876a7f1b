"""Variables in the values of a Hadoop configuration, replaced as Hadoop does it.

Hadoop looks a name up in its process first and then among its properties
(`Configuration.substituteVars`). Here only the properties of the same file are known, so a
variable that may come from elsewhere is a fault and never guessed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from queuegate_server.formats.diagnostics import Positioned, quoted
from queuegate_server.formats.yaml_text import MAX_BYTES
from queuegate_server.formats.yarn.model import Text

_VARIABLE: Final = re.compile(r"\$\{([^}$ ]+)\}")
_MOST: Final = 20
"""Hadoop's own bound, `MAX_SUBST` of its `Configuration`."""
_LONGEST: Final = 1_048_576
_OF_THE_PROCESS: Final = (
    "env.",
    "file.",
    "java.",
    "jdk.",
    "line.",
    "os.",
    "path.",
    "sun.",
    "user.",
)
"""How the names begin that Hadoop takes from its environment and from the virtual machine."""


class VariableError(ValueError):
    """A variable cannot be replaced; the text says why."""

    def __init__(self, message: str, position: Positioned) -> None:
        """Keep the message, and the position of the value in which the variable is written."""
        super().__init__(message)
        self.position = position


@dataclass(slots=True)
class Room:
    """How many characters all values of a file together may still come to while variables are
    replaced: a short file must not become one that fills the memory.
    """

    left: int = MAX_BYTES


def replaced(name: str, properties: Mapping[str, Text], room: Room) -> str:
    """Return the value of a property with its variables replaced. Raises VariableError."""
    holders = [properties[name]]
    text = holders[0].text
    for _ in range(_MOST):
        found = _VARIABLE.search(text)
        if found is None:
            return text
        variable = found[1]
        position = next((one for one in reversed(holders) if found[0] in one.text), holders[0])
        if variable.startswith(_OF_THE_PROCESS):
            raise VariableError(f"{quoted(variable)} comes from Hadoop's own process", position)
        if variable not in properties:
            raise VariableError(f"{quoted(variable)} is not set in this file", position)
        value = properties[variable]
        room.left -= len(text) + len(value.text)
        if room.left < 0:
            raise VariableError("all variables together make the file too long", position)
        if variable in _reached(value.text, properties):
            raise VariableError(f"{quoted(variable)} contains itself", value)
        holders.append(value)
        text = f"{text[: found.start()]}{value.text}{text[found.end() :]}"
        if len(text) > _LONGEST:
            raise VariableError(f"{quoted(variable)} makes the value too long", position)
    if _VARIABLE.search(text):
        raise VariableError(f"there are more than {_MOST} variables", holders[0])
    return text


def _reached(text: str, properties: Mapping[str, Text]) -> set[str]:
    """Return the variables in a text and in their values, as many as may be replaced."""
    reached: set[str] = set()
    waiting = [text]
    while waiting:
        for found in _VARIABLE.finditer(waiting.pop()):
            if found[1] not in reached and found[1] in properties:
                reached.add(found[1])
                waiting.append(properties[found[1]].text)
            if len(reached) >= _MOST:
                return reached
    return reached
