"""limits.md: the bounds that no setting changes, with the values of the code."""

import re
from typing import Final

from docs.generate import caller_limits
from docs.generate.markdown import page, table
from queuegate import _channel, user_info
from queuegate.gate import bounds, replica, state
from queuegate_server.admin import bodies, http, keep_alive
from queuegate_server.admin import connections as ports
from queuegate_server.admission.annotations import yunikorn_settings
from queuegate_server.admission.queues import (
    messages,
    names,
    usable_queues,
)
from queuegate_server.admission.server import webhook_limits
from queuegate_server.config_fields import written_size
from queuegate_server.console import app, forms, sessions, views
from queuegate_server.console.pages import change
from queuegate_server.files import configmap, watcher
from queuegate_server.formats import (
    diagnostics,
    source_text,
    xml_reader,
    yaml_builder,
    yaml_reader,
)
from queuegate_server.formats.yunikorn import placement
from queuegate_server.identity import members
from queuegate_server.identity.resolvers.ldap import (
    entries,
    filter_syntax,
    ldap_messages,
    ldap_options,
    option_types,
    pending,
    sync_changes,
    user_lookup,
)
from queuegate_server.identity.rest import answer_limits, answers
from queuegate_server.policystore import parser_child as child
from queuegate_server.policystore import parser_process as parser
from queuegate_server.policystore import proposal
from queuegate_server.rpc import (
    access_service,
    application_service,
    columns,
    policy_service,
    sync_service,
    sync_validation,
    tokens,
    user_group_service,
    user_listing,
    validation,
    wire,
)
from queuegate_server.settings import admission as queue_settings
from queuegate_server.settings import callers, listeners, load
from queuegate_server.sync import barrier, change_log, compiler, connected, session
from queuegate_server.transports.http import server as http_port
from queuegate_server.transports.http import strict_json

_INTRODUCTION: Final = """\
Every input has a limit, so that no caller or file can exhaust the server. This page lists the fixed
limits and all limits on callers. Other limits are settings, such as those on lookups in
[`resolvers`](settings.md#resolversname), and on cached users in
[`cache`](settings.md#partitionsnamecache).
"""


def generate() -> str:
    """Return the page."""
    head = ("what", "limit")
    return page(
        "Limits",
        _INTRODUCTION,
        "## What one caller meets",
        caller_limits.section(),
        "## Requests",
        "A request that exceeds one of these fails with `INVALID_ARGUMENT` (`INVALID_FIELD`).",
        table(head, _requests()),
        "## Files",
        "A file that exceeds one of these causes an error with its location; the last valid policy"
        " stays in effect.",
        table(head, _files()),
        "## Reloads",
        "A changed policy is parsed in a child process. If it exceeds a limit, the reload fails.",
        table(head, _reloads()),
        "## Lists of users",
        "A list of a queue's users that reaches one of these is incomplete and says so.",
        table(head, _lists()),
        "## Directories that are followed",
        "An `ldap` resolver with `changes: syncrepl` that exceeds one of the first three limits"
        " does not follow its directory; groups then expire as without `changes`.",
        table(head, _followed()),
        "## Answers of a directory",
        "A lookup whose answers exceed one of these fails; others on the connection do not.",
        table(head, _entries()),
        "## Answers of an identity provider",
        "A lookup whose answers exceed one of these fails. A pause outside its bounds is adjusted.",
        table(head, _answers()),
        "## HTTP",
        "Requests over HTTP become calls, to which the limits above apply. A request that exceeds"
        " one of these is answered with an HTTP error.",
        table(head, _http_port()),
        "## The operations port",
        table(head, _operations_port()),
        "## The web console",
        "A request that exceeds one of these is answered with an HTTP error.",
        table(head, _console()),
        "## Gates",
        "The first nine limits apply to callers of `SyncService`; our clients respect them.",
        table(head, _gates()),
        "## What a gate takes from a server",
        "A message that exceeds one of these ends the stream: the gate drops its copy, logs the"
        " cause, and asks the server. The Python and Go gates have the same limits.",
        table(head, _servers()),
        "## The admission webhook",
        "A request that exceeds one of these is answered with an HTTP error, or denied.",
        table(head, _webhook()),
        "## Queues that objects name",
        "An object that exceeds one of these is refused, or in warn mode accepted with a warning,"
        " unless the table says otherwise.",
        table(head, _queues()),
    )


def _followed() -> list[tuple[str, str]]:
    entry = pending.entry_allowance()
    return [
        (
            (
                "Memory for the groups and users that all resolvers in a process keep, and for "
                f"those being read, which count as {sync_changes.READING_FACTOR} times their size"
            ),
            _size(sync_changes.MAX_CONTENT_BYTES),
        ),
        ("Entry of a group or user", f"{entry.max_bytes / 2**20:.0f} MiB"),
        ("Attributes and values of such an entry", _count(entry.elements_left)),
        ("Attributes of such an entry", _count(ldap_messages.MAX_ATTRIBUTES)),
        ("Values of an attribute that names such a user", _count(user_lookup.MAX_NAMES)),
        (
            "Users affected by one change; if there are more, all users are",
            _count(sync_changes.MAX_AFFECTED),
        ),
        (
            "Nested groups' members examined for a change; if there are more, all users are",
            _count(sync_changes.MAX_VISITED),
        ),
    ]


def _entries() -> list[tuple[str, str]]:
    return [
        ("DN of an entry or in a value", f"{_count(entries.MAX_DN_BYTES)} bytes"),
        ("Attributes of an entry", _count(ldap_messages.MAX_ATTRIBUTES)),
        (
            "Responses to one request",
            f"{_size(pending.MAX_LOOKUP_BYTES)}, less with a low `max_groups`",
        ),
        ("Responses to a request for members or users", _size(pending.MAX_LISTING_BYTES)),
    ]


def _answers() -> list[tuple[str, str]]:
    return [
        ("Body of an answer", _size(answer_limits.MAX_BODY_BYTES)),
        ("Body of a token or an error", _size(answer_limits.MAX_SMALL_BODY_BYTES)),
        ("Values in an answer", _count(answer_limits.MAX_VALUES)),
        (
            "Headers of an answer, informational answers before it, and chunk framing",
            (
                f"{_size(answer_limits.MAX_OVERHEAD_BYTES)},"
                f" and 1/{answer_limits.FRAMING_SHARE} of the body"
            ),
        ),
        ("Informational answers", _count(answer_limits.MAX_INFORMATIONAL)),
        ("Pages of a list", _count(answer_limits.MAX_PAGES)),
        (
            "Pause that an answer requests (`Retry-After`, `X-Rate-Limit-Reset`)",
            (
                f"{answers.MIN_PAUSE:g} to {answers.MAX_PAUSE:g} s;"
                f" {answers.DEFAULT_PAUSE:g} s if it names none, or an unreadable one"
            ),
        ),
    ]


def _requests() -> list[tuple[str, str]]:
    default = _count(access_service.DEFAULT_PAGE_SIZE)
    return [
        ("User or group name", f"{_count(validation.MAX_NAME_BYTES)} bytes of UTF-8"),
        ("A user's groups in a request", _count(validation.MAX_GROUPS)),
        ("Path of a queue", f"{_count(validation.MAX_QUEUE_BYTES)} bytes of UTF-8"),
        ("Checks in a batch", _count(wire.MAX_BATCH)),
        ("Checks in a `CheckQueueAccessColumns`", _count(columns.MAX_CHECKS)),
        ("Users, or queues, in a `CheckQueueAccessColumns`", _count(columns.MAX_NAMES)),
        (
            "Fields in a request or an item in a batch, including nested messages",
            _count(wire.MAX_FIELDS),
        ),
        (
            "Fields in a `CheckQueueAccessColumns`, including its indexes",
            _count(columns.MAX_FIELDS),
        ),
        ("Users in an `InvalidateUserGroups`", _count(user_group_service.MAX_USERS)),
        ("Text in a `ValidatePolicy`", _size(policy_service.MAX_CONTENT_BYTES)),
        ("View ACL or modify ACL of an application", _size(application_service.MAX_ACL_BYTES)),
        (
            "Queues per page of `ListQueues`; any others are on later pages",
            f"{_count(access_service.MAX_PAGE_SIZE)} ({default} by default)",
        ),
        ("Annotation `user.info`", _size(user_info.MAX_BYTES)),
        (
            "Response that the Python client accepts (gRPC's default is 4 MiB)",
            _size(_channel.MAX_RECEIVE_BYTES),
        ),
    ]


def _lists() -> list[tuple[str, str]]:
    return [
        ("Memberships (pairs of a group and a user)", _count(members.MAX_MEMBERS)),
        ("Requests to a directory", _count(members.MAX_SEARCHES)),
        ("Time to find the members of all groups", f"{members.LISTING_SECONDS:g} s"),
        ("Users with `--users-from directory`", _count(members.MAX_USERS)),
        ("Time to list them", f"{members.USERS_SECONDS:g} s"),
        ("Time to check the users on a page", f"{user_listing.CONFIRM_SECONDS:g} s"),
        ("Users on a page", _count(user_listing.MAX_PAGE_SIZE)),
    ]


def _files() -> list[tuple[str, str]]:
    yaml_nodes = (
        f"{_count(yaml_reader.MIN_NODES)}, or one for every {yaml_reader.BYTES_PER_NODE} bytes"
        f" if that is more, but at most {_count(yaml_reader.MAX_NODES)}"
    )
    xml_elements = (
        f"{_count(xml_reader.MIN_ELEMENTS)}, or one for every {xml_reader.BYTES_PER_ELEMENT} bytes"
        f" if that is more, but at most {_count(xml_reader.MAX_ELEMENTS)}"
    )
    return [
        ("Policy file", _size(source_text.MAX_BYTES)),
        ("ConfigMap", _size(configmap.MAX_BYTES)),
        ("Settings", _size(load.MAX_BYTES)),
        ("YAML nesting", f"{yaml_builder.MAX_DEPTH} levels"),
        ("YAML nodes", yaml_nodes),
        ("XML nesting", f"{xml_reader.MAX_DEPTH} levels"),
        ("XML elements", xml_elements),
        ("Certificate, key, and `callers.token_file`", f"{_size(watcher.MAX_BYTES)} each"),
        ("Tokens in `callers.token_file`", _count(tokens.MAX_TOKENS)),
        ("Length of a token", f"at least {tokens.MIN_LENGTH} characters"),
        ("Name in `callers.certificates`", f"{callers.MAX_NAME_LENGTH} characters"),
        ("LDAP filter", f"{_count(filter_syntax.MAX_CHARS)} characters"),
        (
            "DN in the settings of an LDAP directory",
            f"{_count(option_types.MAX_DN_CHARS)} characters",
        ),
        ("Password file for an LDAP directory", f"{_count(ldap_options.MAX_PASSWORD_BYTES)} bytes"),
        (
            "Regular expression in a `queues.yaml`; longer ones are not checked, with a warning",
            f"{_count(placement.MAX_PATTERN)} characters",
        ),
        ("Path of a Unix socket", f"{listeners.MAX_SOCKET_PATH_BYTES} bytes"),
    ]


def _reloads() -> list[tuple[str, str]]:
    memory = _size(parser.MIN_MEMORY_BYTES)
    return [
        ("Memory", f"{memory}, or {parser.MEMORY_PER_BYTE} bytes for each byte of text"),
        (
            "Memory to check a policy sent by a caller, one at a time, also in `/validate-conf`",
            f"{_size(parser.MIN_CHECK_BYTES)}, or {parser.MEMORY_PER_BYTE} bytes for each byte",
        ),
        (
            "Processor time",
            f"{parser.MIN_CPU_SECONDS} s, and {parser.CPU_SECONDS_PER_MIB} s for each MiB of text",
        ),
        ("Elapsed time", f"{parser.WALL_SECONDS_PER_CPU_SECOND} times the processor time"),
        (
            "Findings in all files, and in `ValidatePolicy`",
            _size(child.MAX_DIAGNOSTICS_BYTES),
        ),
        ("Message or remedy of a finding", f"{_count(diagnostics.MAX_MESSAGE)} characters"),
    ]


def _http_port() -> list[tuple[str, str]]:
    return [
        ("Evaluation before the caller is identified", _size(http_port.MAX_REMEMBERED_BYTES)),
        (
            "Body",
            f"{_size(http_port.MAX_BODY_BYTES)}, or `limits.max_message` if that is less",
        ),
        ("Larger bodies that arrive at the same time", _size(http_port.MAX_BODIES)),
        ("Time that a body waits for others", f"{http_port.WAIT_SECONDS:g} s"),
        ("Time for a body to arrive", f"{http_port.BODY_SECONDS:g} s"),
        ("Entries of arrays and objects in a body", _count(strict_json.MAX_ENTRIES)),
        ("All headers of a request together", _size(ports.MAX_HEAD_BYTES)),
        ("Time for a response to be read", f"{bodies.RESPONSE_SECONDS:g} s"),
        ("Time for the first request on a connection", f"{keep_alive.FIRST_REQUEST_SECONDS:g} s"),
        ("Time between two requests on a connection", f"{keep_alive.KEEP_ALIVE_SECONDS:g} s"),
    ]


def _operations_port() -> list[tuple[str, str]]:
    return [
        (
            (
                "Connections to the operations port, including those in handshakes;"
                " a new one replaces the oldest"
            ),
            _count(ports.MAX_CONNECTIONS),
        ),
        (
            "All headers of a request to the operations port or the webhook together",
            _size(ports.MAX_HEAD_BYTES),
        ),
        ("Duration of a connection to the operations port", f"{ports.CONNECTION_SECONDS:g} s"),
        ("First line of a request to the operations port", _size(http.MAX_LINE_BYTES)),
    ]


def _console() -> list[tuple[str, str]]:
    between = 1 / sessions.FAILURES_PER_SECOND
    return [
        ("Pages rendered at the same time for known callers", _count(app.MAX_REQUESTS)),
        ("Time to render such a page", f"{app.REQUEST_SECONDS:g} s"),
        ("First line of a request", _size(app.MAX_LINE_BYTES)),
        ("Form", _size(views.SMALL_FORM_BYTES)),
        ("Form on the Change page, with its file", _size(change.MAX_FORM_BYTES)),
        ("Claims on the Change page", _size(change.MAX_CLAIMS_BYTES)),
        ("Proposals being compared (one at a time) or waiting", _count(forms.MAX_WAITING)),
        ("Result of comparing a proposal", _size(proposal.MAX_RESULT_BYTES)),
        ("Fields in a form", _count(forms.MAX_FIELDS)),
        ("Time for a form to arrive", f"{forms.READ_SECONDS:g} s"),
        (
            "Sessions of one caller; a new one ends the oldest",
            _count(sessions.MAX_SESSIONS_OF_CALLER),
        ),
        ("Sessions", _count(sessions.MAX_SESSIONS)),
        (
            f"Burst of invalid tokens from an address; then one every {between:g} s, or 429",
            _count(sessions.FAILURES_AT_ONCE),
        ),
    ]


def _gates() -> list[tuple[str, str]]:
    return [
        ("Name of a gate", f"{sync_validation.MAX_NAME_BYTES} bytes of UTF-8"),
        ("Program of a gate", f"{sync_validation.MAX_AGENT_BYTES} bytes of UTF-8"),
        (
            "Gates that `queuegate fleet` lists for each replica, those with a fallback first",
            _count(connected.MAX_LISTED),
        ),
        (
            "Disconnected gates with `stale` that `--wait` names; others are named together",
            _count(barrier.MAX_AWAY),
        ),
        ("Partitions that a gate names", _count(sync_validation.MAX_PARTITIONS)),
        ("Users in one request for groups", _count(sync_validation.MAX_WANTED)),
        (
            "Users whose groups a gate waits for; above this, its stream ends with `OVERLOADED`",
            _count(sync_service.MAX_WAITING),
        ),
        (
            "Groups sent to a gate that it has not read; above this, its lookups wait",
            _size(sync_service.MAX_OFFERED_BYTES),
        ),
        ("Message from a gate", _size(sync_validation.MAX_MESSAGE_BYTES)),
        (
            "Silence from a gate; then its stream ends with `DRAINING`",
            f"{sync_service.MAX_SILENCE:g} s",
        ),
        (
            "Changes that a gate may miss while disconnected; after more, it starts over",
            _count(change_log.MAX_CHANGES),
        ),
        ("How long a gate decides after its last answered ping", f"{session.LEASE:g} s"),
        ("Users whose groups a gate keeps", _count(replica.MAX_USERS)),
        (
            "Decisions that a Python gate caches for given groups; a full cache is emptied",
            _count(state.MAX_CACHED_DECISIONS),
        ),
    ]


def _servers() -> list[tuple[str, str]]:
    overhead = bounds.GROUP_OVERHEAD_BYTES
    return [
        ("Lease", f"{bounds.MAX_LEASE_SECONDS:g} s"),
        (
            "Ping interval; shorter ones are raised to the minimum",
            f"{bounds.MIN_PING_SECONDS:g} to {bounds.MAX_PING_SECONDS:g} s",
        ),
        (
            "Time between answered pings while policies are being sent",
            f"{bounds.MAX_TRANSFER_SECONDS:g} s",
        ),
        ("Message", _size(bounds.MAX_MESSAGE_BYTES)),
        ("Partitions", _count(bounds.MAX_PARTITIONS)),
        ("Queues in all partitions", _count(bounds.MAX_QUEUES)),
        (
            "Path patterns of queues that YARN will create, in all partitions",
            _count(bounds.MAX_QUEUES),
        ),
        (
            "Patterns that a server sends for one partition; above this, gates ask the server",
            _count(compiler.MAX_PATTERNS),
        ),
        ("Different names in the ACLs of all partitions", _count(bounds.MAX_NAMES)),
        ("Levels of all chains in all partitions", _count(bounds.MAX_LEVELS)),
        ("Levels of one chain", _count(bounds.MAX_CHAIN_LEVELS)),
        (
            "Levels of a queue that YARN will create, below the nearest existing queue",
            _count(bounds.MAX_CREATED_LEVELS),
        ),
        ("Names listed by all levels", _count(bounds.MAX_LISTED)),
        ("Paths of all queues", _size(bounds.MAX_PATHS_BYTES)),
        ("Policies of all partitions, as sent", _size(bounds.MAX_POLICY_BYTES)),
        ("Partition name", f"{_count(bounds.MAX_NAME_BYTES)} bytes of UTF-8"),
        ("Path of a queue", f"{_count(bounds.MAX_PATH_BYTES)} bytes of UTF-8"),
        (
            "A user's groups, each at most as long as a name; above this, the gate asks the server",
            _count(bounds.MAX_GROUPS),
        ),
        (
            f"Groups of all users, plus {overhead} bytes each; above this, the gate drops users",
            _size(bounds.MAX_GROUP_BYTES),
        ),
        (
            "Lifetime of groups; longer ones are shortened",
            f"{bounds.MAX_LIFETIME_SECONDS:,.0f} s",
        ),
        ("Users in one invalidation message", _count(bounds.MAX_FORGOTTEN)),
        (
            "Reconnection delay that a server may request; longer ones are shortened",
            f"{bounds.MAX_RETRY_SECONDS:g} s",
        ),
    ]


def _webhook() -> list[tuple[str, str]]:
    small = _size(webhook_limits.SMALL_BODY_BYTES)
    further = f"others wait for {webhook_limits.LARGE_BODY_WAIT_SECONDS:g} s"
    entries = _count(webhook_limits.SMALL_BODY_ENTRIES)
    return [
        (
            "Connections; a new one replaces the one that has been idle longest",
            _count(webhook_limits.MAX_CONNECTIONS),
        ),
        ("Body of a review", _size(webhook_limits.MAX_BODY_BYTES)),
        (
            f"Bodies above {small} or {entries} entries at once, per endpoint; {further}",
            _count(webhook_limits.LARGE_BODIES),
        ),
        ("ConfigMaps checked at once; others wait until the API server's time limit", "1"),
        (
            "Entries in a list or map of names, labels or annotations",
            _count(webhook_limits.MAX_MAP_ENTRIES),
        ),
        (
            "Regular expression in the webhook's settings",
            f"{_count(yunikorn_settings.MAX_PATTERN_CHARACTERS)} characters",
        ),
    ]


def _queues() -> list[tuple[str, str]]:
    return [
        (
            "Different queues in an object; in an update, only those that are new",
            _count(webhook_limits.MAX_QUEUES),
        ),
        ("Places in an object that name a queue", _count(webhook_limits.MAX_FOUND)),
        ("Queue name in an object", f"{_count(names.MAX_NAME)} characters"),
        (
            "Entries in all lists and maps of an object, except in `managedFields`",
            _count(webhook_limits.MAX_OBJECT_ENTRIES),
        ),
        (
            "Nesting levels of an object; far more are an HTTP error",
            _count(webhook_limits.MAX_DEPTH),
        ),
        (
            "Groups of the requester; more are an HTTP error",
            _count(webhook_limits.MAX_REQUEST_GROUPS),
        ),
        (
            "Name of the requester; a longer one is an HTTP error",
            f"{_count(webhook_limits.MAX_NAME_BYTES)} bytes of UTF-8",
        ),
        (
            "Simultaneous lookups of users never seen before, for clients without a certificate",
            _count(webhook_limits.MAX_STRANGERS_RUNNING),
        ),
        (
            "Reviews that wait for such a lookup; more are an HTTP error",
            _count(webhook_limits.MAX_STRANGERS_WAITING),
        ),
        ("Usable queues that a message lists", _count(messages.MAX_USABLE)),
        ("Time to search for usable queues", f"{usable_queues.SECONDS * 1000:g} ms"),
        (
            "Patterns in `controllers`, and in `exempt`; more are an error at startup",
            _count(queue_settings.MAX_PATTERNS),
        ),
    ]


def _size(number: int) -> str:
    """Return a size, with a space before the unit."""
    return re.sub(r"(?<=\d)(?=[A-Z])", " ", written_size(number))


def _count(number: int) -> str:
    """Return a number with its thousands separated."""
    return f"{number:,}"
