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
_REMEDIES: Final[Mapping[str, str]] = {
    r"NOPERM(ISSION)?|(?i:no permissions?|can't run this command|can't access)": "grant the account"
    " in fleet.username the rights listed in the fleet guide",
    r"(?i:unknown (redis )?command)": "a fleet needs Redis 6.2 or newer, or Valkey, without renamed"
    " commands",
    r"NOAUTH|(?i:authentication required|unauthenticated|already authenticated)": "Redis requires"
    " a password: set fleet.password_file, and fleet.username unless the account is `default`",
    r"WRONGPASS|(?i:invalid (username|password)|authentication)": "correct fleet.username and"
    " fleet.password_file",
    r"OOM|OUTOFMEMORY|(?i:maxmemory|out of memory)": "give Redis more memory, and set"
    " maxmemory-policy volatile-ttl",
    r"READONLY|(?i:read only replica)": "fleet.url must name the master, or the sentinels that know"
    " it",
    r"MISCONF|(?i:unable to persist)": "Redis cannot write to its disk: see the Redis log",
    r"NOREPLICAS|(?i:enough good replicas)": "start the Redis replicas, or lower"
    " min-replicas-to-write",
    r"MOVED|ASK|CROSSSLOT|CLUSTERDOWN|(?i:cluster is down)": "for a cluster, fleet.url must begin"
    " with redis+cluster:// or rediss+cluster://",
    r"WRONGTYPE": "another client has overwritten a key of the fleet: delete it",
    r"(BUSY)?LOADING|BUSY|(?i:busy running)": "wait until Redis has loaded its data, or its script"
    " has ended",
    r"(?i:DB index)": "correct the database number at the end of fleet.url",
}
"""Remedies, keyed by regular expressions for whole words in the exception's name or text."""
_UNREACHABLE: Final[Mapping[str, str]] = {
    r"No master found.*AuthenticationError": "the sentinels require a password: set or correct"
    " fleet.sentinel_password_file",
    r"No master found": "check that the sentinels in fleet.url know its service name",
    r"CERTIFICATE_VERIFY_FAILED.*certificate has expired": "renew the certificate of Redis, or the"
    " CA's in fleet.ca_file",
    r"CERTIFICATE_EXPIRED|(?i:alert certificate expired)": "renew the certificate in"
    " fleet.cert_file, which has expired for Redis",
    r"CERTIFICATE_VERIFY_FAILED": "check fleet.ca_file, and the names in the certificate of Redis",
    r"Timeout connecting": "check the host and port in fleet.url, and that no firewall blocks them",
    r"Error -?[0-9]+ connecting": "check that Redis is running at the address in fleet.url",
    r"Cluster mode is not enabled": "fleet.url must begin with redis:// or rediss://",
}
"""Remedies for driver errors, keyed by regular expressions for whole words in their text."""


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
