"""limits.md: the bounds that no setting changes, with the values of the code."""

import re
from typing import Final

from docs.generate.markdown import page, table
from queuegate import _channel, user_info
from queuegate_server.admission import bodies, connections
from queuegate_server.config_fields import written_size
from queuegate_server.files import configmap
from queuegate_server.formats import source_text, xml_reader, yaml_reader
from queuegate_server.policystore import parser_process as parser
from queuegate_server.rpc import (
    columns,
    policy_service,
    tokens,
    user_group_service,
    validation,
    wire,
)
from queuegate_server.server import wiring
from queuegate_server.settings import callers, listeners, load
from queuegate_server.transports import stalls

_INTRODUCTION: Final = """\
Every input has a bound, so that no caller and no file can exhaust the server. This page lists the
bounds that are fixed. Others are settings: calls at once, streams, rates, times and the size of a
message in [`limits`](settings.md#limits), lookups in [`resolvers`](settings.md#resolversname),
users in [`cache`](settings.md#partitionsnamecache).
"""


def generate() -> str:
    """Return the page."""
    head = ("what", "limit")
    return page(
        "Limits",
        _INTRODUCTION,
        "## Requests",
        "A request beyond one of them ends with `INVALID_ARGUMENT` (`INVALID_FIELD`).",
        table(head, _requests()),
        "## Files",
        "A file beyond one of them is an error with its place; the last good policy stays.",
        table(head, _files()),
        "## Reloads",
        "A changed policy is parsed in a child process. Beyond its limits, the reload fails.",
        table(head, _reloads()),
        "## Connections",
        table(head, _connections()),
    )


def _requests() -> list[tuple[str, str]]:
    return [
        ("Name of a user or group", f"{_count(validation.MAX_NAME_BYTES)} bytes of UTF-8"),
        ("Groups of a user in a request", _count(validation.MAX_GROUPS)),
        ("Path of a queue", f"{_count(validation.MAX_QUEUE_BYTES)} bytes of UTF-8"),
        ("Checks of a batch, or of a message of a stream", _count(wire.MAX_BATCH)),
        ("Checks of a `CheckQueueAccessColumns`", _count(columns.MAX_CHECKS)),
        ("Users, and queues, of a `CheckQueueAccessColumns`", _count(columns.MAX_NAMES)),
        ("Users of an `InvalidateUserGroups`", _count(user_group_service.MAX_USERS)),
        ("Text of a `ValidatePolicy`", _size(policy_service.MAX_CONTENT_BYTES)),
        ("Annotation `user.info`", _size(user_info.MAX_BYTES)),
        (
            "Answer that the Python client accepts (gRPC's default is 4 MiB)",
            _size(_channel.MAX_RECEIVE_BYTES),
        ),
    ]


def _files() -> list[tuple[str, str]]:
    return [
        ("Policy file", _size(source_text.MAX_BYTES)),
        ("ConfigMap", _size(configmap.MAX_BYTES)),
        ("Settings", _size(load.MAX_BYTES)),
        ("Levels of YAML; nodes", f"{yaml_reader.MAX_DEPTH}; {_count(yaml_reader.MAX_NODES)}"),
        ("Levels of XML; elements", f"{xml_reader.MAX_DEPTH}; {_count(xml_reader.MAX_ELEMENTS)}"),
        ("Tokens in `callers.token_file`", _count(tokens.MAX_TOKENS)),
        ("Name in `callers.certificates`", f"{callers.MAX_NAME_LENGTH} characters"),
        ("Path of a Unix socket", f"{listeners.MAX_SOCKET_PATH_BYTES} bytes"),
    ]


def _reloads() -> list[tuple[str, str]]:
    memory = _size(parser.MIN_MEMORY_BYTES)
    return [
        ("Memory", f"{memory}, or {parser.MEMORY_PER_BYTE} bytes for each byte of text"),
        (
            "Processor time",
            f"{parser.MIN_CPU_SECONDS} s, and {parser.CPU_SECONDS_PER_MIB} s for each MiB of text",
        ),
        ("Time", f"{parser.WALL_SECONDS_PER_CPU_SECOND} times the processor time"),
    ]


def _connections() -> list[tuple[str, str]]:
    return [
        ("Calls whose request is still arriving", _count(stalls.MAX_RECEIVING)),
        (
            "Answers that callers have not read; beyond it, long calls are refused",
            _size(wiring.MAX_UNREAD),
        ),
        ("Connections of the admission webhook", _count(connections.MAX_CONNECTIONS)),
        ("Body of an admission review", _size(bodies.MAX_BODY_BYTES)),
    ]


def _size(number: int) -> str:
    """Return a size, with a blank before the unit."""
    return re.sub(r"(?<=\d)(?=[A-Z])", " ", written_size(number))


def _count(number: int) -> str:
    """Return a number with its thousands apart."""
    return f"{number:_}".replace("_", " ")
