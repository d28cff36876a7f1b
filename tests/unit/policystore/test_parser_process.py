"""Parsing in a child process: the same result as in this one, and limits that hold."""

import asyncio
import itertools
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from queuegate.policy.acl import AclNames
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.diagnostics import Diagnostic, has_errors
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.registry import FormatOptions
from queuegate_server.formats.yarn.load import YarnOptions
from queuegate_server.policystore import parser_child, parser_process, parsing
from queuegate_server.policystore.parser_process import ParserError
from queuegate_server.policystore.parsing import (
    CheckJob,
    File,
    ParsedPolicies,
    ParseJob,
    PolicyText,
)
from queuegate_server.runtime import child_process, pacing
from tests.support.generators.yarn_templates import capacity_scheduler
from tests.support.rows import rows
from tests.support.yarn_templates import creating_scheduler

EXAMPLES = Path(__file__).parents[3] / "examples"
ODD_ACLS = """
partitions:
  - name: default
    usergroupresolver: {type: static}
    queues:
      - name: root
        submitacl: "alice,b:d,é dev,a.b"
        adminacl: "*"
        queues:
          - {name: z, submitacl: "alice,b:d,é dev,a.b"}
          - name: a
            adminacl: " ops"
            queues: [{name: "@recovery@"}, {name: Ünder}, {name: b}]
          - {name: never}
"""


def policy(
    name: str,
    data: bytes,
    spark: File | None = None,
    acl_names: Mapping[str, AclNames] | AclNames = AclNames.YUNIKORN,
    **yarn: Any,
) -> PolicyText:
    yarn_options = YarnOptions(**{"partition": "yarn", **yarn})
    options = FormatOptions(acl_names, resolver_types=frozenset({"static"}), yarn=yarn_options)
    return PolicyText(File(name, data), "", options, spark=spark)


def job(*texts: PolicyText) -> ParseJob:
    return ParseJob(texts, "ABC")


def example(name: str, **stated: Any) -> PolicyText:
    return policy(name, (EXAMPLES / name).read_bytes(), **stated)


SITE = (EXAMPLES / "yarn-site.xml").read_bytes(), "yarn-site.xml"


def shown(partition: Partition) -> list[Any]:
    """Return everything that a partition holds, and what it decides."""
    queues = [
        (path, queue.path, queue.submit_acl, queue.admin_acl)
        for path, queue in partition.queues.items()
    ]
    asked = itertools.product(partition.queues, Access, ("alice", "b:d", "Bob", ""))
    decided = [
        decide(partition, path, access, user, (user, "dev", "ops")) for path, access, user in asked
    ]
    others = partition.name, partition.resolver_type, partition.resolver_place, partition.cluster
    return [
        *others,
        partition.paths,
        partition.depth,
        partition.childless_parents,
        partition.groups_outside_acls,
        partition.group_patterns,
        dict(partition.short_names),
        partition.creation,
        [
            queue.acl_texts
            for path in partition.created_below("root")
            for queue in partition.upwards(path)
        ],
        queues,
        decided,
    ]


def assert_same(found: ParsedPolicies, expected: ParsedPolicies) -> None:
    assert replace(found, partitions={}) == replace(expected, partitions={})
    assert [*map(shown, found.partitions.values())] == [*map(shown, expected.partitions.values())]


LIMITED = """
partitions:
  - name: default
    placementrules:
      - {name: fixed, value: root.a, filter: {groups: ["^ml-.*$"]}}
      - name: user
        filter: {groups: [ops, dev]}
        parent: {name: fixed, value: root.b, filter: {groups: [old]}}
    limits: [{limit: all, groups: [staff, "*"], maxapplications: 9}]
    queues:
      - name: root
        queues:
          - {name: a, limits: [{limit: a, groups: [few], maxapplications: 1}]}
          - {name: b, parent: true}
"""


JOBS = {
    "limits and filters": job(policy("limited", LIMITED.encode())),
    "YuniKorn": job(example("queues.yaml")),
    "odd ACLs": job(policy("odd", ODD_ACLS.encode())),
    "extended names": job(
        policy("odd", ODD_ACLS.encode(), acl_names={"default": AclNames.EXTENDED})
    ),
    "errors": job(policy("bad", b"partitions:\n - name: a\n   nosuch: 1\n - 7\n")),
    "nothing": job(policy("empty", b"partitions: []\n")),
    "queues that will be created": job(policy("cs.xml", creating_scheduler().encode())),
    "many of these": job(
        *(
            policy(
                f"{number}.xml",
                capacity_scheduler(random.Random(number)).encode(),
                partition=str(number),
            )
            for number in range(20)
        )
    ),
    "several": job(
        example("queues.yaml"),
        example(
            "fair-scheduler.xml",
            partition="fair",
            daemon_user="yarn",
            semantics=Semantics.HADOOP,
            site=SITE,
            spark=File("spark", b"spark.acls.enable true\n"),
        ),
        example("capacity-scheduler.xml", partition="capacity", site=SITE),
    ),
}


@pytest.mark.parametrize("case", JOBS)
async def test_a_child_parses_as_this_process_does(case: str) -> None:
    expected = parsing.parse(JOBS[case])
    assert_same(await parser_process.parse(JOBS[case]), expected)


async def test_a_child_checks_as_this_process_does() -> None:
    data = (EXAMPLES / "queues.yaml").read_bytes() + b"          - {name: a b}\n"
    for with_lint in (True, False):
        files = File("", data), File("other", data)
        job = CheckJob("yunikorn", files, FormatOptions(AclNames.EXTENDED), with_lint)
        expected = parsing.check(job).diagnostics
        assert {diagnostic.file for diagnostic in expected} == {"", "other"}
        assert await parser_process.check(job) == expected


async def test_lines_are_short_work() -> None:
    queues = "".join(f"          - {{name: q{number}, parent: true}}\n" for number in range(12_000))
    text = f"partitions:\n  - queues:\n      - name: root\n        queues:\n{queues}"
    large = job(policy("large", text.encode()))
    expected = parsing.parse(large)
    assert len(expected.partitions["default"].childless_parents) == 12_000
    lines = [*parser_child.encode_result(expected)]
    assert len(lines) > 24
    assert max(map(len, lines)) < 50_000
    assert_same(await parser_process.decode(lines), expected)


async def test_other_work_goes_on_between_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    at_line: list[int] = []

    def noted(lines: Iterable[bytes]) -> Iterator[bytes]:
        for line in lines:
            at_line.append(turns)
            yield line

    monkeypatch.setattr(pacing, "FIRST_STEP_SECONDS", 0)
    monkeypatch.setattr(pacing, "STEP_SECONDS", 0)
    counting = asyncio.create_task(count())
    result = parsing.parse(JOBS["several"])
    await parser_process.decode(noted(parser_child.encode_result(result)))
    counting.cancel()
    assert len(at_line) == len(set(at_line)) > 5


def _fake(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Put a program in the place of the parser."""
    command = [sys.executable, "-S", "-c", f"import sys; sys.stdin.buffer.read()\n{program}"]
    monkeypatch.setattr(parser_process, "_command", lambda _: command)


@rows
async def test_a_parser_that_breaks_down_is_a_diagnostic(
    monkeypatch: pytest.MonkeyPatch, program: str, message: str
) -> None:
    monkeypatch.setattr(parser_process, "MIN_CPU_SECONDS", 1)
    monkeypatch.setattr(parser_process, "CPU_SECONDS_PER_MIB", 0)
    monkeypatch.setattr(parser_process, "WALL_SECONDS_PER_CPU_SECOND", 600)
    monkeypatch.setattr(parser_process, "MIN_CHECK_BYTES", 64 << 20)
    monkeypatch.setattr(parser_process, "NICENESS", 0)
    _fake(monkeypatch, program)
    (diagnostic,) = await parser_process.check(CheckJob("yunikorn", (File("name", b""),)))
    assert (diagnostic.file, diagnostic.severity) == ("name", Severity.ERROR)
    assert message in diagnostic.message
    assert diagnostic.remedy


async def test_a_wall_clock_ends_a_parser_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_process, "WALL_SECONDS_PER_CPU_SECOND", 0.01)
    _fake(monkeypatch, "import time; time.sleep(600)")
    with pytest.raises(ParserError, match=r"parsing takes more than 0\.35 s, the limit"):
        await parser_process.parse(JOBS["YuniKorn"])


def test_a_parser_that_hangs_holds_a_reload_up_for_two_minutes_or_so() -> None:
    assert parser_process._limits(100, 0).seconds <= 140
    assert parser_process._limits(8 << 20, 0).seconds <= 280


async def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the parser itself, with a text that takes more."""
    monkeypatch.setattr(parser_process, "MIN_MEMORY_BYTES", 64 << 20)
    queues = ",".join(f"{{name: q{number}}}" for number in range(60_000))
    text = f"partitions: [{{name: default, queues: [{{name: root, queues: [{queues}]}}]}}]"
    monkeypatch.setattr(parser_process, "MEMORY_PER_BYTE", 1)
    with pytest.raises(ParserError, match="more than 64 MiB of memory"):
        await parser_process.parse(job(policy("large", text.encode())))


async def test_the_interpreter_may_hide_that_memory_ran_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As Python 3.13 does if an object's construction runs out of memory."""
    (tmp_path / "short_of_memory.py").write_text(
        "from queuegate_server.policystore.parser_child import end_child\n"
        "def work(job):\n"
        "    raise SystemError('returned a result with an exception set') from MemoryError()\n"
        "def run_child():\n"
        "    end_child(work)\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ParserError, match="more than 512 MiB of memory"):
        await parser_process.run_job("short_of_memory", job(), None)


async def test_a_child_that_cannot_import_leaves_its_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As after an upgrade that has replaced files under a running server."""
    (tmp_path / "queuegate_server").mkdir()
    (tmp_path / "queuegate_server" / "__init__.py").write_text("import not_there_any_more\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ParserError, match=rf"failed unexpectedly \(status {parser_child.FAILED}\)"):
        await parser_process.parse(JOBS["YuniKorn"])
    (traceback,) = (record.__dict__["traceback"] for record in caplog.records)
    assert traceback.startswith("Traceback")
    assert "No module named 'not_there_any_more'" in traceback


async def test_a_child_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser_process, "_command", lambda _: ["/nowhere"])
    with pytest.raises(ParserError, match="cannot be started: No such file") as failed:
        await parser_process.parse(JOBS["YuniKorn"])
    assert failed.value.remedy
    with pytest.raises(FileNotFoundError):
        await parser_process.check(CheckJob("yunikorn", ()))


@rows
async def test_the_remedy_for_a_child_that_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    async def run(*_: object, **_named: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(child_process, "run", run)
    with pytest.raises(ParserError, match=os.strerror(number)) as failed:
        await parser_process.parse(JOBS["YuniKorn"])
    assert failed.value.remedy == remedy.replace("PYTHON", sys.executable)


def test_the_child_imports_no_server() -> None:
    program = (
        "import sys, queuegate_server.policystore.parser_child;"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    found = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert "queuegate_server" in found
    assert not {"grpc", "google", "pydantic", "asyncio", "uvloop"} & {*found}


async def test_findings_are_bounded_in_bytes() -> None:
    """And an error among those that are left out still makes the policy invalid."""
    warnings = [
        Diagnostic("f", line, 1, Severity.WARNING, "m" * 1_000, "r" * 1_000)
        for line in range(1, 10_001)
    ]
    error = Diagnostic("f", 20_000, 1, Severity.ERROR, "the last one")
    parsed = ParsedPolicies({}, {}, (*warnings, error), {}, {}, "")
    lines = [*parser_child.encode_result(parsed)]
    assert sum(map(len, lines)) < parser_child.MAX_DIAGNOSTICS_BYTES + 10_000
    found = (await parser_process.decode(lines)).diagnostics
    assert len(found) > 1_000
    assert "more findings are not shown because of their total size" in found[-1].message
    assert has_errors(found)
