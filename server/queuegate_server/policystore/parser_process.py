"""Parses policies in a child process with limits, while this process continues to handle calls."""

import asyncio
import errno
import io
import json
import logging
import math
import pickle
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import queuegate.policy
import queuegate_server
from queuegate.policy.acl import AclNames
from queuegate.policy.created_queues import Creator, QueueCreation, Template, TemplateKind
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, PartitionBuilder
from queuegate.policy.yarn_acl import Cluster, Semantics, parse_yarn
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.policystore.parser_child import FAILED, MAX_DIAGNOSTICS_BYTES, OUT_OF_MEMORY
from queuegate_server.policystore.parsing import CheckJob, ParsedPolicies, ParseJob
from queuegate_server.runtime import child_process
from queuegate_server.runtime.child_process import ChildResult, OutputTooLong, ProcessLimits
from queuegate_server.runtime.pacing import Pace
from queuegate_server.runtime.resources import trim_heap

_LOG = logging.getLogger("queuegate_server.policystore")

_MIB: Final = 1 << 20
MIN_MEMORY_BYTES: Final = 512 * _MIB
MIN_CHECK_BYTES: Final = 256 * _MIB
"""The memory limit for text that callers send, in bytes. It leaves half of a container with 512
MiB to the server; only one such text is parsed at a time."""
MEMORY_PER_BYTE: Final = 64
"""The memory limit per byte of text, in bytes. Policies with many small queues take up to 50."""
MIN_CPU_SECONDS: Final = 30
CPU_SECONDS_PER_MIB: Final = 5
"""The CPU time limit per MiB of text, ten times the observed value."""
WALL_SECONDS_PER_CPU_SECOND: Final = 4
"""The wall-clock limit per second of CPU time. A niced child gets little CPU on a busy machine."""
NICENESS: Final = 5
"""The child's niceness. Calls take precedence, but a reload must not take too long on a busy
machine."""
_MAX_CHECK_BYTES: Final = 2 * MAX_DIAGNOSTICS_BYTES
MAX_TRACEBACK_BYTES: Final = 10_000
_SIMPLIFY: Final = "make the policy smaller or simpler; aliases and merge keys multiply it"
_REMEDIES: Final[Mapping[int | None, str]] = {
    **dict.fromkeys((errno.EAGAIN, errno.ENOMEM), "raise the limits on processes and memory"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit on open files"),
}
"""Remedies for failures to start a child, by error number."""
_START: Final = f"""
import importlib, json, sys
sys.path[:] = json.loads(sys.argv[1])
try:
    run_child = importlib.import_module(sys.argv[2]).run_child
except Exception:
    import traceback
    sys.stdout.buffer.write(traceback.format_exc().encode(errors="replace"))
    sys.exit({FAILED})
run_child()
"""


class ParserError(Exception):
    """The parser could not be started, reached a limit or crashed."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


async def parse(job: ParseJob) -> ParsedPolicies:
    """Parse all policies in a child process. Raises ParserError if that fails."""
    try:
        return await _run(job)
    except OSError as error:
        message = f"the parser process cannot be started: {error.strerror or error}"
        remedy = _REMEDIES.get(
            error.errno, f"check that the server's user may execute {sys.executable}"
        )
        raise ParserError(message, remedy) from error


async def check(job: CheckJob) -> tuple[Diagnostic, ...]:
    """Return the diagnostics for the job's files. Raises OSError if no child can be started."""
    # The child may take half of a small container, so this process must not hold memory that it
    # used before.
    await asyncio.to_thread(trim_heap)
    try:
        return (await _run(job)).diagnostics
    except ParserError as error:
        names = ", ".join(file.name for file in job.files)
        return (Diagnostic(names, 0, 0, Severity.ERROR, str(error), error.remedy),)


async def _run(job: ParseJob | CheckJob) -> ParsedPolicies:
    # A check returns only diagnostics, so limit the output to their maximum size.
    output_bytes = _MAX_CHECK_BYTES if isinstance(job, CheckJob) else None
    output = await run_job("queuegate_server.policystore.parser_child", job, output_bytes)
    try:
        return await decode(io.BytesIO(output))
    except ValueError:
        raise ParserError("the parser's result is incomplete", "report it") from None


async def run_job(module: str, job: object, output_bytes: int | None) -> bytearray:
    """Run a job in a child process, and return its output. The job may contain untrusted text.

    The child calls `run_child` in `module`. All limits depend on the job's size, except the output
    limit if `output_bytes` is given. Raises ParserError if the child reaches a limit or crashes,
    and OSError if no child can be started.
    """
    # Only the input is pickled. Unpickling the output would be unsafe, because the child reads
    # untrusted text.
    text = pickle.dumps(job)
    least = MIN_MEMORY_BYTES if isinstance(job, ParseJob) else MIN_CHECK_BYTES
    limits = _limits(len(text), least, output_bytes)
    try:
        completed = await child_process.run(_command(module), limits, text=[text])
    except TimeoutError:
        raise ParserError(
            f"parsing takes more than {limits.seconds:g} s, the limit for a text of this size",
            "give the machine more CPU time, or make the policy smaller or simpler",
        ) from None
    except OutputTooLong:
        raise ParserError(
            f"the parser's result is larger than {limits.output_bytes // _MIB} MiB",
            _SIMPLIFY,
        ) from None
    if completed.status:
        raise _failure(completed, limits)
    return completed.output


async def decode(lines: Iterable[bytes]) -> ParsedPolicies:
    """Decode a result line by line, letting other tasks run in between.

    Raises ValueError if the result is incomplete.
    """
    partitions: dict[str, Partition] = {}
    diagnostics: list[Diagnostic] = []
    builder = PartitionBuilder("")
    acls: list[str] = []
    paths: list[str] = []
    more: dict[str, list[Any]] = {}
    creation = QueueCreation({})
    pace = Pace()
    for line in lines:
        kind, content = json.loads(line)
        match kind:
            case "partition":
                name, resolver_type, (row, column), acl_names, cluster = content
                builder = PartitionBuilder(
                    name,
                    resolver_type,
                    cluster and _cluster(*cluster),
                    resolver_place=(row, column),
                    acl_names=AclNames(acl_names),
                )
                acls, paths = [], []
                more = {"parents": [], "groups": [], "patterns": []}
                creation = QueueCreation({})
            case "queues":
                texts, added, submit, admin = content
                acls += texts
                paths += added
                builder.add(
                    [
                        QueueAcls(path, acls[first], acls[second])
                        for path, first, second in zip(added, submit, admin, strict=True)
                    ]
                )
            case "order":
                builder.add_sorted_paths([paths[index] for index in content])
            case "parents" | "groups" | "patterns":
                more[kind] += content
            case "creation":
                creation = _with_part(creation, *content)
                builder.create(creation)
            case "built":
                partitions[content] = replace(
                    builder.build(),
                    childless_parents=frozenset(map(paths.__getitem__, more["parents"])),
                    groups_outside_acls=frozenset(more["groups"]),
                    group_patterns=tuple(more["patterns"]),
                )
            case "diagnostics":
                diagnostics += map(_diagnostic, content)
            case "end":
                files, *others = content
                return ParsedPolicies(partitions, files, tuple(diagnostics), *others)
        await pace.pause_if_due()
    raise ValueError("the lines have no end")


def _cluster(semantics: str, admins: Sequence[Any], *flags: bool) -> Cluster:
    text, users, *_ = admins
    rules = Semantics(semantics)
    # Keep `users`, because they may include the daemon's user, who is missing from the text.
    admins = parse_yarn(text, rules)._replace(users=frozenset(users))
    return Cluster(rules, admins, *flags)


def _with_part(
    creation: QueueCreation,
    creators: Iterable[tuple[str, Sequence[Any]]],
    templates: Iterable[Sequence[Any]],
    depths: Iterable[tuple[str, int]],
    default_depth: int,
) -> QueueCreation:
    return QueueCreation(
        {**creation.creators, **{path: Creator(*creator) for path, creator in creators}},
        (*creation.templates, *(Template(TemplateKind(kind), *rest) for kind, *rest in templates)),
        {**creation.depths, **dict(depths)},
        default_depth,
    )


def _diagnostic(content: Sequence[Any]) -> Diagnostic:
    file, line, column, severity, *texts = content
    return Diagnostic(file, line, column, Severity(severity), *texts)


def _command(module: str) -> list[str]:
    """Return a command that starts a child with this process's import path and without `site`."""
    client = Path(queuegate.policy.__path__[0]).parents[1]
    server = Path(queuegate_server.__path__[0]).parent
    path = dict.fromkeys([*filter(None, sys.path), str(client), str(server)])
    flags = ["-B"] if sys.dont_write_bytecode else []
    return [sys.executable, "-P", "-S", *flags, "-c", _START, json.dumps([*path]), module]


def _limits(size: int, least: int, output_bytes: int | None = None) -> ProcessLimits:
    memory = max(least, size * MEMORY_PER_BYTE)
    cpu_seconds = MIN_CPU_SECONDS + math.ceil(size / _MIB) * CPU_SECONDS_PER_MIB
    return ProcessLimits(
        seconds=cpu_seconds * WALL_SECONDS_PER_CPU_SECOND,
        cpu_seconds=cpu_seconds,
        memory_bytes=memory,
        output_bytes=output_bytes or memory,
        niceness=NICENESS,
    )


def _failure(completed: ChildResult, limits: ProcessLimits) -> ParserError:
    status = completed.status
    if status == -signal.SIGXCPU:
        return ParserError(
            f"the parser reached its CPU time limit of {limits.cpu_seconds} s (SIGXCPU)",
            _SIMPLIFY,
        )
    if status == OUT_OF_MEMORY:
        return ParserError(
            f"parsing takes more than {(limits.memory_bytes or 0) // _MIB} MiB of memory, the limit"
            " for a text of this size",
            _SIMPLIFY,
        )
    if status == -signal.SIGKILL:
        return ParserError(
            "the parser was killed, probably because the machine or the container ran out of"
            " memory",
            "raise the container's memory limit, or make the policy smaller",
        )
    end = completed.output[-MAX_TRACEBACK_BYTES:]
    detail = end.decode(errors="replace") if status == FAILED else ""
    _LOG.error("the parser failed", extra={"status": status, "traceback": detail})
    return ParserError(
        f"the parser failed unexpectedly (status {status})", "report it, with the server's log"
    )
