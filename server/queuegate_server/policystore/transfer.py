"""Both ends of the pipe to the child process that parses: jobs, results, and the child's program.

A result is lines of JSON, each of which takes the receiver about a millisecond, so that it can do
other work in between. The text of an ACL is sent once, and parsed when it is needed. The child
imports only this module and the parsers, so that it starts fast, and nothing of the server.
"""

import gc
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from queuegate.policy import acl
from queuegate.policy.acl import Acl, AclNames
from queuegate.policy.tree import Cluster, Partition, PartitionBuilder, QueueAcls
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.diagnostics import Diagnostic, Severity
from queuegate_server.policystore.parsing import (
    CheckJob,
    File,
    ParsedPolicies,
    ParseJob,
    PolicyText,
    check,
    parse,
)

T = TypeVar("T")

OUT_OF_MEMORY: Final = 3
"""Exit status of the child."""
FAILED: Final = 4
"""Exit status of the child; its output is a traceback."""

_QUEUES: Final = 500
_NUMBERS: Final = 5_000
_DIAGNOSTICS: Final = 200
"""How many of each kind a line has, at most."""


def run_child() -> None:
    """Parse the job, and end with a status that says what went wrong."""
    # Without cleaning up: there may be no memory for it, and it takes time.
    os._exit(_run_job())


def _run_job() -> int:
    gc.disable()
    with suppress(OSError):
        # If the machine runs out of memory, this process goes first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    output = sys.stdout.buffer
    try:
        data = sys.stdin.buffer.read()
        job = decode_job(data)
        del data
        if isinstance(job, CheckJob):
            lines = encode_result(check(job), {})
        else:
            lines = encode_result(parse(job), job.acl_names)
        output.writelines(lines)
        output.flush()
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception:
        output.write(traceback.format_exc().encode(errors="replace"))
        output.flush()
        return FAILED
    return 0


def encode_job(job: ParseJob | CheckJob) -> list[bytes]:
    """Return parts that together are a job; the contents of files are not copied."""
    if isinstance(job, CheckJob):
        name, data = job.file
        return [_line("check", [job.format, name]), data]
    contents: list[bytes] = []

    def plain(file: File | None) -> tuple[str, int] | None:
        if file is None:
            return None
        contents.append(file.data)
        return file.name, len(file.data)

    texts = [
        [plain(text.policy), *text[1:-2], plain(text.site), plain(text.spark)] for text in job.texts
    ]
    header = [texts, *job[1:]]
    return [_line("parse", header), *contents]


def decode_job(data: bytes) -> ParseJob | CheckJob:
    """Return the job of which `encode_job` returned the parts."""
    start = data.index(b"\n") + 1
    kind, header = json.loads(data[:start])
    if kind == "check":
        return CheckJob(header[0], File(header[1], data[start:]))
    texts, checksum, acl_names, semantics, resolver_types = header

    def file(plain: tuple[str, int]) -> File:
        nonlocal start
        name, length = plain
        start += length
        return File(name, data[start - length : start])

    texts = [
        PolicyText(
            file(policy),
            stated,
            partition,
            daemon_user,
            tuple(yarn_keys),
            site and file(site),
            spark and file(spark),
        )
        for policy, stated, partition, daemon_user, yarn_keys, site, spark in texts
    ]
    return ParseJob(
        tuple(texts),
        checksum,
        {name: AclNames(names) for name, names in acl_names.items()},
        {name: Semantics(each) for name, each in semantics.items()},
        frozenset(resolver_types),
    )


def encode_result(parsed: ParsedPolicies, acl_names: Mapping[str, AclNames]) -> Iterator[bytes]:
    """Return the lines that a ResultDecoder takes."""
    for partition in parsed.partitions.values():
        names = acl_names.get(partition.name, AclNames.YUNIKORN)
        yield from _encode_partition(partition, names)
    for part in _parts(parsed.diagnostics, _DIAGNOSTICS):
        yield _line("diagnostics", [astuple(each) for each in part])
    end = [parsed.files, parsed.empty, parsed.spark_defaults, parsed.formats, parsed.checksum]
    yield _line("end", end)


class ResultDecoder:
    """Decodes a result line by line, each in about a millisecond."""

    def __init__(self) -> None:
        self._builder = PartitionBuilder("")
        self._partitions: dict[str, Partition] = {}
        self._acls: list[str] = []
        self._paths: list[str] = []
        self._diagnostics: list[Diagnostic] = []
        self.result: ParsedPolicies | None = None
        """Not None after the last line."""

    def add(self, line: bytes) -> None:
        """Add the next line."""
        kind, content = json.loads(line)
        match kind:
            case "partition":
                self._begin_partition(content)
            case "acls":
                self._acls += content
            case "queues":
                self._add_queues(content)
            case "order":
                self._builder.add_sorted_paths([self._paths[index] for index in content])
            case "built":
                self._partitions[content] = self._builder.build()
            case "diagnostics":
                self._diagnostics += map(_diagnostic, content)
            case "end":
                self._end(content)

    def _begin_partition(self, content: Sequence[Any]) -> None:
        name, resolver_type, position, acl_names, cluster = content
        self._acls.clear()
        self._paths = []
        self._builder = PartitionBuilder(
            name,
            resolver_type,
            cluster and _cluster(*cluster),
            resolver_place=(position[0], position[1]),
            parse_acl=_grammar(acl_names, cluster),
        )

    def _add_queues(self, content: Sequence[Sequence[Any]]) -> None:
        paths, submit, admin = content
        acls = self._acls
        self._paths += paths
        self._builder.add(
            QueueAcls(path, acls[first], acls[second])
            for path, first, second in zip(paths, submit, admin, strict=True)
        )

    def _end(self, content: Sequence[Any]) -> None:
        files, empty, spark_defaults, formats, checksum = content
        self.result = ParsedPolicies(
            self._partitions,
            files,
            tuple(self._diagnostics),
            frozenset(empty),
            spark_defaults,
            formats,
            checksum,
        )


def _encode_partition(partition: Partition, names: AclNames) -> Iterator[bytes]:
    cluster = partition.cluster
    plain = cluster and astuple(cluster)
    begin = [partition.name, partition.resolver_type, partition.resolver_place, names, plain]
    yield _line("partition", begin)
    acls: dict[str, int] = {}
    numbers = {path: number for number, path in enumerate(partition.queues)}
    for queues in _parts([*partition.queues.values()], _QUEUES):
        texts = [text for queue in queues for text in queue.acl_texts]
        new = [text for text in dict.fromkeys(texts) if text not in acls]
        acls |= zip(new, range(len(acls), len(acls) + len(new)), strict=True)
        found = [acls[text] for text in texts]
        yield _line("acls", new)
        yield _line("queues", [[queue.path for queue in queues], found[::2], found[1::2]])
    for paths in _parts(partition.paths, _NUMBERS):
        yield _line("order", [numbers[path] for path in paths])
    yield _line("built", partition.name)


def _cluster(semantics: str, admins: Sequence[Any], *flags: bool) -> Cluster:
    text, users, groups, allows_all, dropped_users, dropped_groups, proxies = admins
    acl = Acl(
        text,
        frozenset(users),
        frozenset(groups),
        allows_all,
        tuple(dropped_users),
        tuple(dropped_groups),
        frozenset(proxies),
    )
    return Cluster(Semantics(semantics), acl, *flags)


def _grammar(names: str, cluster: Sequence[Any] | None) -> Callable[[str], Acl]:
    if cluster is None:
        return partial(acl.parse, names=AclNames(names))
    return partial(parse_yarn, semantics=Semantics(cluster[0]))


def _diagnostic(content: Sequence[Any]) -> Diagnostic:
    file, line, column, severity, *texts = content
    return Diagnostic(file, line, column, Severity(severity), *texts)


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _line(kind: str, content: object) -> bytes:
    """Return a line of JSON, in which a set is a sorted list."""
    return json.dumps([kind, content], default=sorted).encode() + b"\n"
