"""Explains to operators why Redis refuses a command, and how to fix it.

Redis may refuse a command because of an ACL, a renamed command, a read-only replica, or
insufficient memory. Depending on the command, a queuegate replica then works alone, does not follow
events, or does not share groups.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from redis.exceptions import AuthenticationError, BusyLoadingError, ResponseError

from queuegate_server.files.toml import read_toml
from queuegate_server.identity.secret_masking import mask

_LOG = logging.getLogger("queuegate_server.fleet")

REMEMBERED_SECONDS: Final = 10.0
"""How long a refusal is reported after it last occurred, in seconds. A replica tries each command
several times in this period."""
PROBE_INTERVAL: Final = 3.0
"""Seconds between probes of the commands that heartbeats do not use."""
MAX_TEXT: Final = 200
"""The maximum length of a Redis error in messages."""
_INNER_COMMAND: Final = re.compile(r"command of a script ([A-Z]+): (.*)", re.DOTALL)
_NOISE: Final = re.compile(r"(?:,? with args beginning with| script: [0-9a-f]{40}).*", re.DOTALL)
_TABLES: Final = read_toml(__file__, "refusals.toml")
_REMEDIES: Final[Mapping[str, str]] = _TABLES["refused"]
_UNREACHABLE: Final[Mapping[str, str]] = _TABLES["unreachable"]


def refusal(command: str, error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return an error message if Redis refused the command, or "" for any other error.

    Args:
        command: The name of the command.
        error: An error of the driver.
        secrets: The passwords that were sent, which the message must not contain.
    """
    if not isinstance(error, ResponseError | AuthenticationError | BusyLoadingError):
        return ""
    text = str(error)
    inner = _INNER_COMMAND.search(text)
    if inner is not None:
        command, text = inner[1], inner[2]
    kind = type(error).__name__
    remedy = _remedy(_REMEDIES, f"{kind.removesuffix('Error').upper()} {text}")
    return f"Redis refuses {command} ({kind}: {sanitize(mask(text, secrets))}){remedy}"


def unreachable(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Describe an error other than a refusal, with a remedy if one is known."""
    text = str(error)
    remedy = _remedy({**_UNREACHABLE, **_REMEDIES}, text)
    return f"{type(error).__name__}: {sanitize(mask(text, secrets))}{remedy}"


def _remedy(remedies: Mapping[str, str], text: str) -> str:
    """Return a colon and the remedy for an error, or "" if none is known."""
    for pattern, remedy in remedies.items():
        if re.search(rf"\b(?:{pattern})\b", text, re.DOTALL):
            return f": {remedy}"
    return ""


def sanitize(text: str) -> str:
    """Remove command arguments, control characters and the final period from a Redis error.

    The result is truncated to MAX_TEXT characters.
    """
    text = _NOISE.sub("", text.partition(" : <")[0])[:MAX_TEXT]  # drop the driver object's repr
    return "".join(each if each.isprintable() else " " for each in text).strip().removesuffix(".")


class Refusals:
    """Records which commands Redis currently refuses on any of this replica's connections."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with no refusals. `clock` returns seconds."""
        self._clock = clock
        self._refused: dict[str, tuple[str, float]] = {}
        """The error message and the time of each command's last refusal."""

    @property
    def sentences(self) -> Sequence[str]:
        """The error messages for the current refusals, without duplicates."""
        since = self._clock() - REMEMBERED_SECONDS
        self._refused = {name: each for name, each in self._refused.items() if each[1] > since}
        return list(dict.fromkeys(sentence for sentence, _ in self._refused.values()))

    def add(self, command: str, sentence: str) -> None:
        """Record that a command was refused, and log the refusal if it is new."""
        if sentence not in self.sentences:
            _LOG.warning("%s", sentence)
        self._refused[command] = sentence, self._clock()

    def discard(self, command: str) -> None:
        """Record that a command succeeded."""
        self._refused.pop(command, None)

    def note_probe(self, errors: Mapping[str, str]) -> None:
        """Record a probe's results: `errors` maps each command to its error, or "" on success."""
        for command, error in errors.items():
            if error:
                self.add(f"probe {command}", refusal(command, ResponseError(error)))
            else:
                self.discard(f"probe {command}")
