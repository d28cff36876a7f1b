"""Where policies are parsed: the first ones in this process, all others in a child."""

import asyncio
import gc
import sys
import time
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from queuegate.policy.tree import Partition
from queuegate_server.engine import Engine
from queuegate_server.identity.manager import ResolverManager
from queuegate_server.identity.resolver import Resolver
from queuegate_server.policystore import parser_process, parsing, reloader
from queuegate_server.policystore.parsing import ParsedPolicies, ParseJob
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.reloads import ReloadCause
from queuegate_server.runtime import pacing, pauses, resources
from queuegate_server.runtime.pauses import Pauses
from queuegate_server.settings.model import Settings
from tests.support.fakes.directory import FakeDirectory
from tests.support.fakes.loop import wait_until

QUEUES = "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: {}\n"


class Loading:
    """A reloader with its engine and its file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        settings = Settings.model_validate({"policy": {"path": file}})
        self.engine = Engine(time.monotonic)
        self.opened: list[FakeDirectory] = []
        """In place of the resolvers of the type `test`."""
        self.resolvers = ResolverManager(
            settings, time.monotonic, time.time, around=self._instead_of_test
        )
        self.reloader = Reloader(settings, self.resolvers, self.engine, time.time)

    async def load(self, user: str) -> str:
        """Reload a policy that lists a user; return its diagnostics."""
        self.file.write_text(QUEUES.format(user))
        state = await self.reloader.reload(ReloadCause.START)
        return "; ".join(map(str, state.diagnostics))

    def _instead_of_test(self, name: str, resolver: Resolver) -> Resolver:
        if name != "test":
            return resolver
        self.opened.append(FakeDirectory())
        return self.opened[-1]

    @property
    def served(self) -> str:
        partition = self.engine.snapshot.policy.partitions["default"]
        return partition.queues["root"].submit_acl.text


@pytest.fixture
async def loading(tmp_path: Path) -> AsyncIterator[Loading]:
    one = Loading(tmp_path / "queues.yaml")
    yield one
    one.reloader.close()
    await one.resolvers.close()


async def test_only_the_first_policy_is_parsed_in_this_process(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(parser_process, "_command", lambda _: ["/nowhere"])
        assert not await loading.load("alice")
        found = await loading.load("bob")
        assert "the parser process cannot be started: No such file" in found
        assert loading.served == "alice"
        assert (loading.reloader.succeeded, loading.reloader.failed) == (1, 1)
    assert not await loading.load("carol")
    assert loading.served == "carol"


async def test_a_text_beyond_the_limits_leaves_the_last_good_policy(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not await loading.load("alice")
    monkeypatch.setattr(parser_process, "MIN_MEMORY_BYTES", 48 << 20)
    monkeypatch.setattr(parser_process, "MEMORY_PER_BYTE", 1)
    found = await loading.load(",".join(f"user{number}" for number in range(2_000_000)))
    assert found.startswith(f"{loading.file}: error: parsing takes more than 48 MiB of memory")
    assert loading.served == "alice"
    state = loading.reloader.state
    assert state.ended_at
    assert not state.succeeded


async def test_the_log_describes_each_yarn_cluster(
    loading: Loading, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    loading.file.write_text("<allocations/>")
    assert (await loading.reloader.reload(ReloadCause.START)).succeeded
    (line,) = [record for record in caplog.records if "YARN cluster" in record.message]
    found = {
        key: line.__dict__[key] for key in ("partition", "semantics", "acls_enabled", "admins")
    }
    assert found == {
        "partition": "default",
        "semantics": "documented",
        "acls_enabled": True,
        "admins": " ",
    }


def break_parser(patch: pytest.MonkeyPatch) -> None:
    """The parser is killed, as if the machine had run out of memory."""
    program = "import os; os.kill(os.getpid(), 9)"
    patch.setattr(parser_process, "_command", lambda _: [sys.executable, "-S", "-c", program])


async def test_a_failure_of_the_parser_is_tried_again(
    loading: Loading, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing but the parser has failed: no change of the file would make another attempt."""
    assert not await loading.load("alice")
    monkeypatch.setattr(pauses, "PARSER", Pauses(0.02, most=0.05))
    with monkeypatch.context() as patch:
        break_parser(patch)
        found = await loading.load("bob")
        assert "was killed" in found
        assert "; the server will try again in 0.02 s" in found
        await wait_until(lambda: loading.reloader.failed >= 4)
        assert loading.served == "alice"
    await wait_until(lambda: loading.served == "bob")
    assert loading.reloader.state.succeeded
    announced = [record.__dict__.get("in_seconds") for record in caplog.records]
    assert [*filter(None, announced)][:4] == [0.02, 0.04, 0.05, 0.05]
    made = loading.reloader.succeeded, loading.reloader.failed
    await asyncio.sleep(0.2)
    assert (loading.reloader.succeeded, loading.reloader.failed) == made


async def test_a_fault_of_the_text_is_not_tried_again(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not await loading.load("alice")
    monkeypatch.setattr(pauses, "PARSER", Pauses(0.02))
    assert "by itself" not in await loading.load("[")
    await asyncio.sleep(0.5)
    assert loading.reloader.failed == 1


async def test_errors_come_before_warnings(loading: Loading) -> None:
    assert not await loading.load("alice")
    names = "\n".join(
        f"      - {{name: q{number}, submitacl: 'ann,a b!c'}}" for number in range(30)
    )
    parent = QUEUES.format("alice") + "        queues:\n" + names.replace("      -", "          -")
    loading.file.write_text(parent + "\n          - {name: q0}\n")
    state = await loading.reloader.reload(ReloadCause.START)
    severities = [str(each.severity) for each in state.diagnostics]
    assert severities == ["error"] + ["warning"] * 30
    assert state.diagnostics[0].line > state.diagnostics[-1].line
    assert loading.reloader.past[-1].diagnostics[0] == state.diagnostics[0]


async def test_the_last_reloads_are_kept(loading: Loading) -> None:
    for _ in range(20):
        await loading.load("sue")
    await loading.load('"')
    past = loading.reloader.past
    assert len(past) == 10
    assert [each.succeeded for each in past] == [True] * 9 + [False]
    assert [each.revision for each in past] == [1] * 10
    assert [bool(each.diagnostics) for each in past] == [False] * 9 + [True]


@pytest.mark.parametrize("ended_by", ["a newer reload", "close"])
async def test_what_ends_further_attempts(
    loading: Loading, monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    assert not await loading.load("alice")
    monkeypatch.setattr(pauses, "PARSER", Pauses(0.5))
    with monkeypatch.context() as patch:
        break_parser(patch)
        assert "will try again" in await loading.load("bob")
    if ended_by == "close":
        loading.reloader.close()
    else:
        assert not await loading.load("carol")
    made = loading.reloader.succeeded, loading.reloader.failed
    await asyncio.sleep(1)
    assert (loading.reloader.succeeded, loading.reloader.failed) == made


def parse_in_this_process(patch: pytest.MonkeyPatch) -> None:
    """Save the time that child processes need."""

    async def parse(job: ParseJob) -> ParsedPolicies:
        return parsing.parse(job)

    patch.setattr(parser_process, "parse", parse)


def policy(*partitions: tuple[str, str]) -> str:
    """Return a policy with these partitions and the types of their resolvers."""
    return "partitions:" + "".join(
        f"\n- {{name: {name}, usergroupresolver: {{type: {kind}}}, queues: [{{name: root}}]}}"
        for name, kind in partitions
    )


async def test_resolvers_of_a_policy_that_cannot_be_served_do_not_stay_open(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolver of one partition can be opened, that of another one cannot."""
    parse_in_this_process(monkeypatch)
    loading.file.write_text(policy(("default", "none")))
    assert (await loading.reloader.reload(ReloadCause.START)).succeeded
    for attempt in range(50):
        loading.file.write_text(
            policy(("default", "none"), (f"new-{attempt}", "test"), ("broken", "ldap"))
        )
        state = await loading.reloader.reload(ReloadCause.START)
        assert [each.key.name for each in state.unusable] == ["ldap"]
        assert [(each.opened, each.closed) for each in loading.opened] == [(1, 1)] * (attempt + 1)
        assert [each.name for _, each in loading.resolvers.resolvers()] == ["none"]
        assert len(loading.resolvers._groups) == 1
    loading.file.write_text(policy(("default", "test")))
    assert (await loading.reloader.reload(ReloadCause.START)).succeeded
    assert (loading.opened[-1].opened, loading.opened[-1].closed) == (1, 0)


async def test_a_replaced_policy_is_freed_without_a_collection(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A served policy is exempt from collections: in a cycle, it would stay for good."""

    def partitions() -> int:
        return sum(isinstance(each, Partition) for each in gc.get_objects())

    monkeypatch.setattr(resources, "freeze_gc", lambda: None)
    gc.collect()
    before = partitions()
    gc.disable()
    try:
        for user in ("alice", "bob", "carol"):
            assert not await loading.load(user)
            assert loading.served == user
            assert partitions() == before + 1
    finally:
        gc.enable()


async def test_groups_of_a_replaced_resolver_are_freed_without_a_collection(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse_in_this_process(monkeypatch)
    monkeypatch.setattr(resources, "freeze_gc", lambda: None)
    replaced: list[weakref.ref[object]] = []
    gc.collect()
    gc.disable()
    try:
        for kind in ("test", "os", "none"):
            loading.file.write_text(policy(("default", kind)))
            assert (await loading.reloader.reload(ReloadCause.START)).succeeded
            groups = loading.engine.snapshot.served["default"].groups
            await groups.resolve("root")
            groups.known("root")
            replaced.append(weakref.ref(groups))
            del groups
        await wait_until(lambda: not any(each() for each in replaced[:-1]))
        assert replaced[-1]()
    finally:
        gc.enable()


async def test_a_replaced_policy_is_freed_in_steps_once_it_is_unused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reloader, "FREED_AT_ONCE", 2)
    monkeypatch.setattr(pacing, "FIRST_STEP_SECONDS", 0)
    monkeypatch.setattr(pacing, "STEP_SECONDS", 0)
    parts: list[object] = [object() for _ in range(5)]
    unused = asyncio.Event()
    freeing = asyncio.create_task(reloader._free(parts, [], unused))
    sizes = []
    for _ in range(2):
        await asyncio.sleep(0)
        sizes.append(len(parts))
    unused.set()
    while not freeing.done():
        await asyncio.sleep(0)
        sizes.append(len(parts))
    assert sizes[:2] == [5, 5]
    assert {3, 1} <= set(sizes)
    assert parts == []
