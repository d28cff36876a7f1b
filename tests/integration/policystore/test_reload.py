"""Reloads of the policy: what starts them, and what a bad file changes."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

import queuegate
from tests.support.eventually import eventually
from tests.support.servers.blocking_pipes import blocking_server_command
from tests.support.servers.queuegate_server import ADMIN, run, running_server
from tests.support.servers.reloading_server import (
    ALICE,
    BOB,
    ReloadingServer,
    queues_of,
    reloading_alice,
    reloading_server,
)

DIAGNOSTIC = "policy diagnostic"
NOT_VALID = "policy is not valid; the last good one stays in use"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReloadingServer]:
    with reloading_alice(tmp_path_factory.mktemp("shared")) as started:
        yield started


@pytest.fixture
def reloading(shared: ReloadingServer) -> ReloadingServer:
    shared.reset()
    return shared


def test_a_written_file_is_served(reloading: ReloadingServer) -> None:
    before = reloading.policy()
    assert (before.revision, before.reload_failed_at) == (1, None)
    assert reloading.owner() == ["alice"]
    reloading.path.write_text(BOB)
    eventually(reloading.owner, ["bob"])
    after = reloading.policy()
    assert after.revision == 2
    assert after.checksum != before.checksum
    assert after.loaded_at is not None
    assert before.loaded_at is not None
    assert after.loaded_at > before.loaded_at
    reloading.replace(ALICE)
    eventually(reloading.owner, ["alice"])
    assert reloading.policy().checksum == before.checksum
    assert reloading.revision() == 3


def test_a_configmap_swap_is_served(tmp_path: Path) -> None:
    """The links and folders are those that the kubelet makes, in its order."""
    mount = tmp_path / "mount"
    mount.mkdir()

    def publish(stamp: str, text: str) -> None:
        (mount / stamp).mkdir()
        (mount / stamp / "queues.yaml").write_text(text)
        (mount / "..data_tmp").symlink_to(stamp)
        (mount / "..data_tmp").rename(mount / "..data")

    publish("..2026_01_01_00_00_00.1", ALICE)
    path = mount / "queues.yaml"
    path.symlink_to("..data/queues.yaml")
    with reloading_server(path) as reloading:
        for number, owner in enumerate(["bob", "alice", "bob"], start=2):
            publish(f"..2026_01_01_00_00_00.{number}", queues_of(owner))
            shutil.rmtree(mount / f"..2026_01_01_00_00_00.{number - 1}")
            eventually(reloading.owner, [owner])
            assert reloading.revision() == number
        assert reloading.count(NOT_VALID) == 0


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_link_to_another_place_is_followed(tmp_path: Path, linked: str) -> None:
    """A link's target may change, and so may the link itself (git-sync does that)."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "queues.yaml").write_text(ALICE)
    (tmp_path / "served").mkdir()
    link = tmp_path / "served" / "current"
    link.symlink_to(first if linked == "folder" else first / "queues.yaml")
    path = link / "queues.yaml" if linked == "folder" else link
    with reloading_server(path) as reloading:
        (first / "queues.yaml").write_text(BOB)
        eventually(reloading.owner, ["bob"])
        new = tmp_path / "served" / "new"
        new.symlink_to(second if linked == "folder" else second / "queues.yaml")
        new.rename(link)
        eventually(reloading.owner, ["alice"])
        (second / "queues.yaml").write_text(BOB)
        eventually(reloading.owner, ["bob"])
        assert reloading.revision() == 4


def test_sighup_reads_the_file_again(reloading: ReloadingServer) -> None:
    reloading.replace("partitions: 7\n")
    eventually(lambda: reloading.count(NOT_VALID), 1)
    # The watcher has nothing more to report: only the signal makes a second attempt.
    reloading.send_sighup()
    eventually(lambda: reloading.count(NOT_VALID), 2)
    reloading.replace(BOB)
    reloading.send_sighup()
    assert reloading.owner() == ["bob"]
    assert reloading.revision() == 2


def test_a_file_that_holds_the_served_policy_again_is_logged(reloading: ReloadingServer) -> None:
    reloading.replace("partitions: 7\n")
    eventually(reloading.failed, True)
    reloading.replace(ALICE)
    eventually(reloading.failed, False)
    # On a busy machine, a reading of the file may take too long, and fail in addition.
    eventually(lambda: reloading.count("policy is valid again") > 0, True)
    assert reloading.revision() == 1


def test_a_reload_call_returns_the_outcome(reloading: ReloadingServer) -> None:
    reloading.replace(BOB)
    result = reloading.reload()
    assert (result.succeeded, result.revision, result.diagnostics) == (True, 2, ())
    assert reloading.owner() == ["bob"]
    reloading.replace(BOB.replace('"bob"', '"a b c"'))
    result = reloading.reload()
    assert (result.succeeded, result.revision) == (False, 2)
    (diagnostic,) = result.diagnostics
    assert (diagnostic.severity, diagnostic.line, diagnostic.column) == ("error", 8, 24)
    assert diagnostic.queue == "root.work"
    assert diagnostic.message
    assert diagnostic.remedy
    assert reloading.owner() == ["bob"]
    # A warning stops nothing; it is part of the answer and of later answers.
    reloading.replace(BOB.replace('"bob"', '"bob,no/name"'))
    result = reloading.reload()
    assert (result.succeeded, result.revision) == (True, 3)
    assert [diagnostic.severity for diagnostic in result.diagnostics] == ["warning"]
    assert reloading.policy().diagnostics == result.diagnostics


def test_the_same_content_is_the_same_revision(reloading: ReloadingServer) -> None:
    before = reloading.policy()
    for _ in range(3):
        reloading.replace(ALICE)
        result = reloading.reload()
        assert (result.succeeded, result.revision) == (True, 1)
    assert reloading.policy() == before


BAD = [
    # what is wrong, and where; no place if that is the reader's own choice
    (ALICE.replace('"alice"', '"a b c"'), (8, 24)),
    (ALICE.replace("submitacl", "submitalc"), (8, 13)),
    (ALICE + '            submitacl: "*"\n', (9, 13)),
    (queues_of("alice", "lpad"), (3, 31)),
    (ALICE.replace('"alice"', '"alice'), None),
    ("partitions:\n  - name: \udcff\n", None),
    (ALICE[:50], None),
    ("", None),
]


def test_a_bad_file_changes_nothing(reloading: ReloadingServer) -> None:
    before = reloading.policy()
    for count, (text, place) in enumerate(BAD, start=1):
        reloading.replace(text)
        eventually(lambda: reloading.count(NOT_VALID), count)
        assert reloading.logs[-1]["level"] == "error"
        assert reloading.owner() == ["alice"]
        during = reloading.policy()
        assert (during.revision, during.checksum, during.loaded_at, during.queues) == (
            before.revision,
            before.checksum,
            before.loaded_at,
            before.queues,
        )
        assert during.reload_failed_at is not None
        diagnostic = during.reload_diagnostics[0]
        assert diagnostic.severity == "error"
        if place:
            assert (diagnostic.line, diagnostic.column) == place
        located = (
            f"{reloading.path}:{diagnostic.line}:{diagnostic.column}: error: {diagnostic.message}"
        )
        if not diagnostic.line:
            located = f"{reloading.path}: error: {diagnostic.message}"
        assert [
            entry["level"]
            for entry in reloading.logs
            if entry["event"] == DIAGNOSTIC and entry["diagnostic"].startswith(located)
        ] == ["error"]
    reloading.replace(BOB)
    eventually(reloading.owner, ["bob"])
    after = reloading.policy()
    assert (after.revision, after.reload_failed_at, after.reload_diagnostics) == (2, None, ())


def test_going_back_to_what_is_served_ends_the_failure(reloading: ReloadingServer) -> None:
    reloading.replace("partitions: 7\n")
    eventually(reloading.failed, expected=True)
    reloading.replace(ALICE)
    eventually(reloading.failed, expected=False)
    assert reloading.revision() == 1


def test_other_files_of_the_folder_are_no_reason_to_reload(reloading: ReloadingServer) -> None:
    reloading.replace("partitions: 7\n")
    eventually(lambda: reloading.count(NOT_VALID), 1)
    for number in range(3):
        (reloading.path.parent / f"other-{number}").write_text("")
    # Changes are seen in their order: when this is served, the files above were seen.
    reloading.replace(BOB)
    eventually(reloading.owner, ["bob"])
    assert reloading.count(NOT_VALID) == 1


def test_a_deleted_file_changes_nothing(reloading: ReloadingServer) -> None:
    reloading.path.unlink()
    eventually(reloading.failed, expected=True)
    assert reloading.owner() == ["alice"]
    assert reloading.revision() == 1
    (diagnostic,) = reloading.policy().reload_diagnostics
    assert "No such file" in diagnostic.message
    reloading.path.write_text(ALICE)
    eventually(reloading.failed, expected=False)
    assert reloading.revision() == 1
    reloading.path.unlink()
    eventually(reloading.failed, expected=True)
    reloading.path.write_text(BOB)
    eventually(reloading.owner, ["bob"])
    assert (reloading.revision(), reloading.failed()) == (2, False)


def test_a_deleted_folder_changes_nothing(reloading: ReloadingServer) -> None:
    shutil.rmtree(reloading.path.parent)
    eventually(reloading.failed, expected=True)
    assert reloading.owner() == ["alice"]
    reloading.path.parent.mkdir()
    reloading.path.write_text(BOB)
    eventually(reloading.owner, ["bob"])


def test_many_reloads_at_once(reloading: ReloadingServer) -> None:
    reloading.replace(BOB)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: reloading.reload(), range(8)))
        reloading.send_sighup()
    assert {(result.succeeded, result.revision) for result in results} == {(True, 2)}
    assert reloading.revision() == 2


def test_a_policy_that_loses_its_partitions_has_one_diagnostic(reloading: ReloadingServer) -> None:
    reloading.replace("partitions: []\n")
    result = reloading.reload()
    assert not result.succeeded
    (diagnostic,) = result.diagnostics
    assert diagnostic.message == "the policy no longer has any partitions"
    assert diagnostic.remedy
    assert reloading.owner() == ["alice"]


def test_settings_for_a_partition_that_goes_are_a_warning(tmp_path: Path) -> None:
    path, settings = tmp_path / "queues.yaml", tmp_path / "queuegate.yaml"
    path.write_text(ALICE)
    settings.write_text("partitions: {default: {trust_provided_groups: false}}\n")
    with (
        running_server("--policy", str(path), "--config", str(settings), *ADMIN) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        path.write_text(ALICE.replace("default", "gpu"))
        result = client.reload()
        assert result.succeeded
        not_asked, diagnostic = result.diagnostics
        assert not_asked.message.startswith('no partition is named "default", only "gpu"')
        message = "the settings name the partition 'default', but the policy has 'gpu'"
        assert (diagnostic.severity, diagnostic.message) == ("warning", message)
        assert client.get_policy("gpu").diagnostics == result.diagnostics


def test_settings_for_an_unknown_partition_are_refused_at_the_start(tmp_path: Path) -> None:
    path, settings = tmp_path / "queues.yaml", tmp_path / "queuegate.yaml"
    path.write_text(ALICE.replace("default", "p2"))
    settings.write_text("partitions: {P2: {trust_provided_groups: false}}\n")
    options = ("--policy", str(path), "--config", str(settings))
    ended = run("serve", "--listen", "127.0.0.1:0", *options)
    assert ended.returncode == 2
    assert "the settings name the partition 'P2', but the policy has 'p2'" in ended.stderr
    assert "'P2' and 'p2' differ only in case" in ended.stderr


@pytest.mark.parametrize("form", ["policies", "policy", "QUEUEGATE_POLICIES"])
def test_a_misspelled_partition_is_refused(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ignored it would trust the groups in requests. `validate` also refuses it."""
    path, settings = tmp_path / "queues.yaml", tmp_path / "queuegate.yaml"
    path.write_text(ALICE)
    misspelled = "partitions: {defualt: {trust_provided_groups: false}}\n"
    if form == "QUEUEGATE_POLICIES":
        monkeypatch.setenv(form, f"[{{path: {path}}}]")
        settings.write_text(f"policies: [{{path: {tmp_path}/other.yaml}}]\n{misspelled}")
    else:
        source = f"{{path: {path}}}"
        settings.write_text(
            f"{form}: {f'[{source}]' if form == 'policies' else source}\n{misspelled}"
        )
    message = "the settings name the partition 'defualt', but the policy has 'default'"
    served = run("serve", "--listen", "127.0.0.1:0", "--config", str(settings))
    assert (served.returncode, message in served.stderr) == (2, True)
    validated = run("validate", "--config", str(settings))
    assert (validated.returncode, message in validated.stdout) == (1, True)


def test_a_pipe_in_the_place_of_the_file_is_refused(reloading: ReloadingServer) -> None:
    pipe = reloading.path.with_name("pipe")
    os.mkfifo(pipe)
    pipe.replace(reloading.path)
    eventually(lambda: reloading.count(NOT_VALID), 1)
    (diagnostic,) = reloading.policy().reload_diagnostics
    assert diagnostic.message == "cannot be read: not a regular file"
    assert reloading.owner() == ["alice"]
    assert not reloading.reload().succeeded
    reloading.replace(BOB)
    eventually(reloading.owner, ["bob"])
    assert not reloading.failed()


def test_the_newest_text_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload whose caller has gone away, and that still reads, does not come last."""
    monkeypatch.setattr(
        "tests.support.servers.queuegate_server.server_command",
        lambda *arguments, **_: blocking_server_command(*arguments),
    )
    with reloading_alice(tmp_path, new_interpreter=True) as reloading:
        overtake(reloading)


def overtake(reloading: ReloadingServer) -> None:
    pipe = reloading.path.with_name("pipe")
    os.mkfifo(pipe)
    pipe.replace(reloading.path)
    with pytest.raises(queuegate.DeadlineExceeded):
        reloading.reload(timeout=0.5)
    reader = os.open(reloading.path, os.O_RDWR)  # opened both ways: never blocks
    reloading.replace(BOB)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(reloading.reload)
        wait([second], timeout=0.5)  # if it can overtake, it does now
        os.write(reader, ALICE.replace("alice", "old-text").encode())
        os.close(reader)
        result = second.result()
    assert result.succeeded
    for _ in range(3):
        assert reloading.reload().revision == result.revision
    assert reloading.owner() == ["bob"]


def test_the_resolver_changes_with_the_policy(reloading: ReloadingServer) -> None:
    """Without a resolver a user is in the group of her name; the table knows other groups."""
    without, table = queues_of(" testuser1"), queues_of(" testuser1", "test")
    for text, name, groups in [
        (without, "none", ("testuser1",)),
        (table, "test", ("group1000", "group1001")),
        (without, "none", ("testuser1",)),
    ]:
        reloading.replace(text)
        assert reloading.reload().succeeded
        for cached in (False, True):
            answer = reloading.client.resolve("testuser1")
            assert (answer.resolver, answer.groups, answer.cached) == (name, groups, cached)
            allowed = reloading.client.check("testuser1", "root.work").allowed
            assert allowed == (name == "none")
        assert reloading.policy().resolver == name
    # Cached groups survive a reload that leaves the resolver alone.
    reloading.replace(without + "# a comment\n")
    assert reloading.reload().revision == 5
    assert reloading.client.resolve("testuser1").cached


def test_partitions_come_and_go(reloading: ReloadingServer) -> None:
    assert reloading.policy().partitions == ("default",)
    with pytest.raises(queuegate.UnknownPartition):
        reloading.client.check("bob", "root.work", partition="gpu")
    gpu = BOB.replace("partitions:\n", "").replace("default", "gpu")
    reloading.replace(ALICE + gpu)
    assert reloading.reload().succeeded
    assert reloading.policy().partitions == ("default", "gpu")
    assert reloading.client.check("bob", "root.work", partition="gpu").allowed
    assert reloading.owner() == ["alice"]
    reloading.replace(ALICE)
    assert reloading.reload().succeeded
    with pytest.raises(queuegate.UnknownPartition):
        reloading.client.check("bob", "root.work", partition="gpu")
