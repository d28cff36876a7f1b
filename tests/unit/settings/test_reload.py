"""Reloading the settings: a setting either changes, or is reported to need a restart."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from queuegate_server.settings import reload
from queuegate_server.settings.admission import Admission, QueueChecks
from queuegate_server.settings.load import SettingsError
from queuegate_server.settings.model import PartitionSettings, Settings
from queuegate_server.settings.queue_schedulers import KueueScheduler, Mode, Scheduler, Schedulers
from queuegate_server.settings.reload import differences, with_changes
from tests.support.rows import rows

QUEUES = QueueChecks(schedulers=Schedulers(kueue=KueueScheduler()))
RUNNING = Settings(partitions={"default": PartitionSettings()}, admission=Admission(queues=QUEUES))
AT_ONCE = {
    "admission.queues.controllers",
    "admission.queues.exempt",
    "admission.queues.mode",
    "admission.queues.schedulers.kueue.mode",
    "admission.queues.unqueued",
    "callers.certificates",
    "callers.loopback.assert_groups",
    "callers.loopback.roles",
    "callers.tokens",
    "callers.unix.assert_groups",
    "callers.unix.roles",
    "drain.delay",
    "drain.grace",
    "limits.max_concurrent_calls",
    "log.format",
    "log.level",
    *(f"partitions.default.cache.{key}" for key in PartitionSettings().cache.model_dump()),
}


def keys(value: object, prefix: str = "") -> Iterator[str]:
    parts = dict(value) if isinstance(value, BaseModel | dict) else {}
    if not parts:
        yield prefix
    for name, part in parts.items():
        yield from keys(part, f"{prefix}.{name}" if prefix else name)


def changed(value: object, path: list[str]) -> object:
    """Return the settings with another value of a key, valid or not."""
    if path:
        name, *rest = path
        if isinstance(value, BaseModel):
            update = {name: changed(getattr(value, name), rest)}
            return value.model_copy(update=update)
        assert isinstance(value, dict)
        return {**value, name: changed(value[name], rest)}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value - 1
    if isinstance(value, tuple):
        return (*value, Scheduler())
    return f"other than {value}"


@pytest.mark.parametrize("key", list(keys(RUNNING)))
def test_a_change_applies_or_is_reported(key: str) -> None:
    read = changed(RUNNING, key.split("."))
    assert isinstance(read, Settings)
    holding = with_changes(RUNNING, read)
    at_once = key in AT_ONCE
    key = key.replace("slurm_bridge", "slurm-bridge")  # as users write it
    assert differences(RUNNING, holding) == ([key] if at_once else [])
    assert differences(holding, read) == ([] if at_once else [key])


def test_the_limit_on_calls_never_exceeds_its_initial_value() -> None:
    limits = RUNNING.limits.model_copy(update={"max_concurrent_calls": 5_000})
    read = RUNNING.model_copy(update={"limits": limits})
    holding = with_changes(RUNNING, read)
    assert holding == RUNNING
    assert differences(holding, read) == ["limits.max_concurrent_calls"]


@pytest.mark.parametrize(
    ("running", "read"), [(None, QUEUES), (QUEUES, None)], ids=["added", "removed"]
)
def test_checks_of_queues_start_and_end_with_the_process(
    running: QueueChecks | None, read: QueueChecks | None
) -> None:
    before, after = (Settings(admission=Admission(queues=each)) for each in (running, read))
    holding = with_changes(before, after)
    assert holding == before
    assert differences(holding, after) == ["admission.queues"]


@rows
def test_only_the_modes_of_places_change_without_a_restart(
    running: list[object], read: list[object], *, at_once: bool, pending: bool
) -> None:
    before, after = (
        Settings.model_validate(
            {"admission": {"queues": {"schedulers": {"kueue": {}, "places": places}}}}
        )
        for places in (running, read)
    )
    holding = with_changes(before, after)
    key = "admission.queues.schedulers.places"
    assert differences(before, holding) == ([key] if at_once else [])
    assert differences(holding, after) == ([key] if pending else [])


@pytest.mark.parametrize(
    ("running", "read"),
    [
        ({"kueue": {}}, {"kueue": {}, "slurm-bridge": {"mode": "deny", "below": "root.slurm"}}),
        ({"kueue": {}, "slurm-bridge": {"mode": "deny", "below": "root.slurm"}}, {"kueue": {}}),
    ],
    ids=["listed", "not listed"],
)
def test_schedulers_are_listed_at_startup(
    running: dict[str, object], read: dict[str, object]
) -> None:
    before, after = (
        Settings.model_validate({"admission": {"queues": {"schedulers": each}}})
        for each in (running, read)
    )
    holding = with_changes(before, after)
    assert holding == before
    assert differences(holding, after) == ["admission.queues.schedulers.slurm-bridge"]


@pytest.mark.parametrize(("below", "applied"), [("root.b", Mode.DENY), ("root", Mode.OFF)])
def test_a_scheduler_is_not_switched_on_beside_another_in_its_queues(
    below: str, applied: Mode
) -> None:
    """The file is valid, but its path for KAI needs a restart."""

    def settings_of(kai: str, mode: str) -> Settings:
        schedulers = {"kai": {"below": kai}, "volcano": {"below": "root.a", "mode": mode}}
        return Settings.model_validate({"admission": {"queues": {"schedulers": schedulers}}})

    running, read = settings_of(below, "off"), settings_of("root.b", "deny")
    applying = with_changes(running, read).admission.queues
    assert applying is not None
    assert applying.schedulers.volcano is not None
    assert applying.schedulers.volcano.mode is applied


def test_a_scheduler_without_rbac_is_not_switched_on_while_rbac_is_served() -> None:
    """The file is valid, but its policy needs a restart."""

    def settings_of(policy: dict[str, object], mode: str) -> Settings:
        queues = {"schedulers": {"kueue": {}, "yunikorn": {"mode": mode}}}
        return Settings.model_validate({"policy": policy, "admission": {"queues": queues}})

    running = settings_of({"kubernetes": {"manifests": ["rbac"]}}, "off")
    applying = with_changes(running, settings_of({"path": "queues.yaml"}, "deny")).admission.queues
    assert applying is not None
    assert applying.schedulers.yunikorn is not None
    assert applying.schedulers.yunikorn.mode is Mode.OFF


def test_added_and_removed_partitions_need_a_restart() -> None:
    read = RUNNING.model_copy(update={"partitions": {"other": PartitionSettings()}})
    holding = with_changes(RUNNING, read)
    assert differences(holding, read) == ["partitions.default", "partitions.other"]


def test_callers_change_except_for_their_token_file() -> None:
    def settings(token_file: str | None, roles: str) -> Settings:
        callers = {"token_file": token_file, "loopback": {"roles": roles}}
        return Settings.model_validate({"callers": callers})

    running, read = settings(None, "check"), settings("other", "admin")
    holding = with_changes(running, read)
    assert differences(running, holding) == ["callers.loopback.roles"]
    assert differences(holding, read) == ["callers.token_file"]


async def test_reading_that_hangs_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "READ_TIMEOUT", 0.05)
    begun, may_go_on = threading.Event(), threading.Event()

    def read() -> str:
        begun.set()
        assert may_go_on.wait(30)
        return "read"

    settings = reload.SettingsReader(read)
    # On a busy machine the thread begins too late for the first attempts.
    while not begun.is_set():
        with pytest.raises(SettingsError, match="reading them took longer"):
            await settings.read()
    with pytest.raises(SettingsError, match="an earlier attempt to read them is still stuck"):
        await settings.read()
    may_go_on.set()
    monkeypatch.setattr(reload, "READ_TIMEOUT", 30.0)
    for _ in range(1_000):
        try:
            assert await settings.read() == "read"
            break
        except SettingsError:
            await asyncio.sleep(0.01)
    else:
        pytest.fail("it is not tried again")


async def test_reading_without_a_free_thread_fails_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    settings = reload.SettingsReader(lambda: "read")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(SettingsError, match="no thread can be started to read them"):
            await settings.read()
    assert await settings.read() == "read"
