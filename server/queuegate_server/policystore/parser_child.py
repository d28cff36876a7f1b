"""The child process in which policies are parsed: reads a job, and writes the result.

To start quickly, the child imports only this module and the parsers. It writes its result as lines
of JSON that each take about a millisecond to decode, so the receiver, `parser_process.py`, can do
other work in between. Each ACL text is sent once and parsed on first use.
"""

import gc
import json
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from queuegate.policy.tree import Partition
from queuegate_server.formats.diagnostics import Diagnostic, diagnostic_of, has_errors
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.findings.table import finding
from queuegate_server.policystore.parsing import CheckJob, ParsedPolicies, check, parse

T = TypeVar("T")

OUT_OF_MEMORY: Final = 3
"""The child's exit status if it runs out of memory."""
FAILED: Final = 4
"""The child's exit status if its output is a traceback."""

_QUEUES: Final = 500
_NUMBERS: Final = 5_000
_DIAGNOSTICS: Final = 50
"""The maximum number of queues, indexes and diagnostics per line."""
MAX_DIAGNOSTICS_BYTES: Final = 4 * 1024 * 1024
"""The maximum encoded size of the diagnostics in a result."""


def run_child() -> None:
    """Read a job from standard input, write its result, and exit with a status code."""
    end_child(lambda job: encode_result(check(job) if isinstance(job, CheckJob) else parse(job)))


def end_child(work: Callable[[Any], Iterable[bytes]]) -> None:
    """Read a job from standard input, write the lines returned by `work(job)`, and exit."""
    # Skip the interpreter's cleanup, which would take time and memory.
    os._exit(_run_job(work))


def _run_job(work: Callable[[Any], Iterable[bytes]]) -> int:
    gc.disable()
    with suppress(OSError):
        # Make the kernel kill this process first if memory runs out.
        Path("/proc/self/oom_score_adj").write_text("1000")
    output = sys.stdout.buffer
    try:
        output.writelines(work(pickle.load(sys.stdin.buffer)))  # noqa: S301 - the parent wrote it
        output.flush()
    except Exception as error:
        if _is_out_of_memory(error):
            return OUT_OF_MEMORY
        try:
            output.write(traceback.format_exc().encode(errors="replace"))
            output.flush()
        except Exception as another:
            return OUT_OF_MEMORY if _is_out_of_memory(another) else FAILED
        return FAILED
    return 0


def _is_out_of_memory(error: Exception) -> bool:
    # Since Python 3.13, the interpreter may raise SystemError from a MemoryError.
    return isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError)


def encode_result(parsed: ParsedPolicies) -> Iterator[bytes]:
    """Encode a result as lines for `parser_process.decode`."""
    for partition in parsed.partitions.values():
        yield from _encode_partition(partition)
    yield from _encode_diagnostics(parsed.diagnostics)
    end = [parsed.files, parsed.spark_defaults, parsed.formats, parsed.checksum]
    yield json_line("end", end)


def _encode_diagnostics(diagnostics: Sequence[Diagnostic]) -> Iterator[bytes]:
    """Encode diagnostics as lines. Beyond the size limit, encode only how many remain."""
    size = 0
    for start in range(0, len(diagnostics), _DIAGNOSTICS):
        part = diagnostics[start : start + _DIAGNOSTICS]
        line = json_line("diagnostics", [astuple(each) for each in part])
        size += len(line)
        if size > MAX_DIAGNOSTICS_BYTES:
            rest = diagnostics[start:]
            severity = Severity.ERROR if has_errors(rest) else Severity.WARNING
            found = replace(finding("more-findings", count=len(rest)), severity=severity)
            left_out = diagnostic_of(found, rest[0].file)
            yield json_line("diagnostics", [astuple(left_out)])
            return
        yield line


def _encode_partition(partition: Partition) -> Iterator[bytes]:
    names, cluster = partition.acl_names, partition.cluster
    plain = cluster and astuple(cluster)
    begin = [partition.name, partition.resolver_type, partition.resolver_place, names, plain]
    yield json_line("partition", begin)
    acls: dict[str, int] = {}
    numbers = {path: number for number, path in enumerate(partition.queues)}
    for queues in _parts([*partition.queues.values()], _QUEUES):
        texts = [text for queue in queues for text in queue.acl_texts]
        new = [text for text in dict.fromkeys(texts) if text not in acls]
        acls |= zip(new, range(len(acls), len(acls) + len(new)), strict=True)
        indexes = [acls[text] for text in texts]
        yield json_line(
            "queues", [new, [queue.path for queue in queues], indexes[::2], indexes[1::2]]
        )
    if (creation := partition.creation) is not None:
        every = [*creation.creators.items()], creation.templates, [*creation.depths.items()]
        for number in range(0, max(map(len, every)), _QUEUES):
            parts = (each[number : number + _QUEUES] for each in every)
            yield json_line("creation", [*parts, creation.default_depth])
    for paths in _parts(partition.paths, _NUMBERS):
        yield json_line("order", [numbers[path] for path in paths])
    for paths in _parts([*partition.childless_parents], _NUMBERS):
        yield json_line("parents", [numbers[path] for path in paths])
    for groups in _parts([*partition.groups_outside_acls], _QUEUES):
        yield json_line("groups", groups)
    for pattern in partition.group_patterns:
        yield json_line("patterns", [pattern])
    yield json_line("built", partition.name)


def _parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def json_line(*content: object) -> bytes:
    """Return a line of JSON. Sets are encoded as sorted lists."""
    return json.dumps(content, default=sorted).encode() + b"\n"
