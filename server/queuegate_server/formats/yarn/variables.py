"""Variables in the values of a Hadoop configuration, replaced as Hadoop does it.

Hadoop looks a name up in its process first and then among its properties
(`Configuration.substituteVars`). Here only the properties of the same file are known, so a
variable that may come from elsewhere is a fault and never guessed.
"""

import re
from collections.abc import Mapping
from typing import Final

from queuegate_server.formats.findings import quoted
from queuegate_server.formats.yarn.model import Text

_VARIABLE: Final = re.compile(r"\$\{([^}$ ]+)\}")
_MOST: Final = 20
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


def replaced(text: str, properties: Mapping[str, Text]) -> str:
    """Return a value with its variables replaced. Raises VariableError."""
    seen: set[str] = set()
    for _ in range(_MOST):
        found = _VARIABLE.search(text)
        if found is None:
            return text
        name = found[1]
        if name.startswith(_OF_THE_PROCESS):
            raise VariableError(f"{quoted(name)} comes from Hadoop's own process")
        if name not in properties:
            raise VariableError(f"{quoted(name)} is not set in this file")
        if name in seen:
            raise VariableError(f"{quoted(name)} contains itself, or is there twice")
        seen.add(name)
        text = f"{text[: found.start()]}{properties[name].text}{text[found.end() :]}"
        if len(text) > _LONGEST:
            raise VariableError(f"{quoted(name)} makes the value too long")
    if _VARIABLE.search(text):
        raise VariableError(f"there are more than {_MOST} variables")
    return text
