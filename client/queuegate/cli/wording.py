"""Translate client and server messages into command-line terms."""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final

from queuegate.exceptions import Violation
from queuegate.policy.names import (
    OTHER_SEPARATORS,
    ROOT,
    SEPARATOR,
    queue_path,
    similar_name,
)

_OTHER_ROOT: Final = re.compile(rf"/*{ROOT}{OTHER_SEPARATORS.pattern}", re.IGNORECASE)
_ARGUMENTS: Final = {
    "user.user": "USER",
    "user": "USER",
    "users": "USER",
    "user.groups": "--group",
    "user.no_groups": "--no-groups",
    "groups": "--group",
    "queue": "QUEUE",
    "application.queue": "--queue",
    "application.owner": "--owner",
    "application.view_acl": "--view-acl",
    "application.modify_acl": "--modify-acl",
    "spark.properties": "--property",
    "spark.spark_user": "--spark-user",
    "spark.process_user": "--process-user",
    "target_queue": "--target-queue",
    "access": "--access",
    "real_user": "--real-user",
    "partition": "--partition",
    "prefix": "--prefix",
    "service": "--service",
    "address": "--address",
    "timeout": "--timeout",
    "token_file": "--token-file",
}
"""Command-line terms for arguments and request fields that may start a message."""
_FIRST: Final = re.compile(rf"({'|'.join(map(re.escape, _ARGUMENTS))})(?:\[(\d+)\])?(?=[: ])")
_ANYWHERE: Final = {
    "Tls(certificate_file=…, key_file=…)": "--tls-cert and --tls-key",
    "Tls(ca_file=…)": "--tls-ca",
    "Tls(server_name=…)": "--tls-server-name",
    "certificate_file": "--tls-cert",
    "key_file": "--tls-key",
    "ca_file": "--tls-ca",
    "token_file": "--token-file",
    "server_name": "--tls-server-name",
}
"""Command-line terms for Python client terms that may appear anywhere in a message."""
_TERM: Final = re.compile(
    rf"""'[^']*'|"[^"]*"|(?<![\w.])(?:{"|".join(map(re.escape, _ANYWHERE))})(?!\w)"""
)
"""Matches a term to translate, or a quoted value to keep."""


def in_command_words(message: str) -> str:
    """Translate a Python client message into command-line terms."""
    return _TERM.sub(lambda match: _ANYWHERE.get(match[0], match[0]), message)


def argument_in_command_words(message: str) -> str:
    """Translate a Python client message that may start with an argument's name."""
    match = _FIRST.match(message)
    if match is not None:
        message = _ARGUMENTS[match[1]] + message[match.end() :]
    return in_command_words(message)


def violations_in_command_words(
    violations: Iterable[Violation], question: Mapping[str, object]
) -> str:
    """Return an error message that lists a command's invalid arguments and their values.

    Args:
        violations: The request fields rejected by the server.
        question: The command's arguments, by name.
    """
    return "; ".join(
        f"{_argument(field, question)} {text}{_hint(field, question)}" for field, text in violations
    )


def _argument(field: str, question: Mapping[str, object]) -> str:
    """Return the command-line name of an argument, with its value if given."""
    name, _, index = field.removesuffix("]").partition("[")
    argument = _ARGUMENTS.get(name, field)
    value = question.get("user" if name == "user.user" else name.rpartition(".")[2])
    if index and isinstance(value, tuple | list) and int(index) < len(value):
        value = value[int(index)]
    return f"{argument} {value!r}" if isinstance(value, str) and value else argument


def _hint(field: str, question: Mapping[str, object]) -> str:
    """Return a suggestion if the queue argument is not a valid path; otherwise ""."""
    user, queue = question.get("user"), question.get("queue")
    if field != "queue" or not isinstance(queue, str) or queue_path(queue):
        return ""
    if isinstance(user, str) and queue_path(user):
        return f"; USER comes first: {shlex.quote(queue)} {shlex.quote(user)}"
    queue = queue.strip()
    if _OTHER_ROOT.match(queue):
        queue = OTHER_SEPARATORS.sub(SEPARATOR, queue).strip(SEPARATOR)
    top, _, rest = queue.partition(SEPARATOR)
    path = f"{ROOT}{SEPARATOR}{queue}"
    if similar_name(top.casefold(), (ROOT,)):
        path = f"{ROOT}{SEPARATOR}{rest}" if rest else ROOT
    return f"; did you mean {path}?" if queue_path(path) else ""
