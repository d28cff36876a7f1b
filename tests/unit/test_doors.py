"""tests/doors.toml: every file of tests runs in one place, and every change has its doors."""

import contextlib
import io
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import run
from tests.support import doors
from tests.support.doors import PROJECT
from tests.support.rows import rows

Git = Callable[..., None]
HUNDRED_TESTS = """
import pathlib, time, pytest

@pytest.mark.parametrize("number", range(100))
def test(number):
    while number == 99 and not pathlib.Path({released!r}).exists():
        time.sleep(0.05)
"""
TABLE = doors.read()
FILES = doors.test_files()


def test_every_file_runs_in_one_place() -> None:
    ran: list[str] = []
    for step in TABLE.steps:
        ran += [name for name in TABLE.files_of_step(step, FILES) if "::" not in name]
    for name, door in TABLE.doors.items():
        if not door.again:
            beside, alone = TABLE.files_of_door(name, FILES)
            ran += beside + alone
    assert sorted(ran) == FILES


def test_every_step_and_door_runs_something() -> None:
    assert [name for name in TABLE.steps if not TABLE.files_of_step(name, FILES)] == []
    empty = [
        name
        for name, door in TABLE.doors.items()
        if not door.command and not TABLE.files_of_door(name, FILES)[0]
    ]
    assert empty == []


def test_every_path_exists() -> None:
    paths = {
        *(path.partition("::")[0] for paths in TABLE.steps.values() for path in paths),
        *(path for door in TABLE.doors.values() for path in (*door.paths, *door.alone)),
        *(path for path in TABLE.sources),
    }
    assert [path for path in paths if not (PROJECT / path).exists()] == []


def test_single_tests_of_make_test_exist() -> None:
    singles = [name for names in TABLE.steps.values() for name in names if "::" in name]
    assert singles
    for name in singles:
        file, _, test = name.partition("::")
        place = TABLE.place_of(file)
        assert place
        assert place[0] == "verify", f"{file} runs in `make test` anyway"
        assert f"def {test.partition('[')[0]}(" in (PROJECT / file).read_text(), name


def test_sources_name_doors_that_run_pytest() -> None:
    named = {name for names in TABLE.sources.values() for name in names}
    assert named == {name for name, door in TABLE.doors.items() if not door.command}


@rows
def test_what_a_change_concerns(changed: list[str], concerned: list[str] | None) -> None:
    every = [name for name, door in TABLE.doors.items() if not door.command]
    assert TABLE.concerned(changed) == (every if concerned is None else concerned)


def test_every_door_that_runs_pytest_says_how_long_it_takes() -> None:
    assert [n for n, door in TABLE.doors.items() if not door.command and not door.minutes] == []


def test_the_shortest_doors_run_within_a_time() -> None:
    minutes = {"long": 30, "short": 1, "middle": 9, "other": 11}
    each = {name: doors.Door(name, "", minutes=number) for name, number in minutes.items()}
    table = doors.Doors({}, each, {})
    assert table.within(minutes, 10) == (["short", "middle"], ["other", "long"])
    assert table.within(["other", "middle"], 10) == (["middle", "other"], [])
    assert table.within(minutes, 0) == ([], ["short", "middle", "other", "long"])


def test_make_has_a_target_for_each_door() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    [doors_of_make] = re.findall(r"^DOORS := (.*)$", makefile, re.MULTILINE)
    assert doors_of_make.split() == [*TABLE.doors]


def test_contributing_says_what_each_door_runs() -> None:
    text = (PROJECT / "CONTRIBUTING.md").read_text()
    listed = re.findall(r"^\| `make verify-([a-z]+)` \| (.+) \|$", text, re.MULTILINE)
    assert dict(listed) == {name: door.does for name, door in TABLE.doors.items()}


def test_a_failing_step_shows_what_it_printed(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        run.Step("good", [["sh", "-c", "echo fine; echo '1 passed in 0.1s'"]]),
        run.Step("bad", [["sh", "-c", "echo the reason; exit 3"], ["echo", "never"]]),
    ]
    ran = run.Run(2)
    ran.all_of(steps, at_once=1)
    shown = capsys.readouterr().out
    assert ran.failed == ["bad"]
    assert "the reason" in shown
    assert "fine" not in shown
    assert "never" not in shown
    assert re.search(r"^ *\[1/2\] good +\d+ s \(\d+ s\)  1 passed$", shown, re.MULTILINE)
    assert re.search(r"^ *\[2/2\] bad +\d+ s \(\d+ s\)  FAILED$", shown, re.MULTILINE)


def test_skipped_tests_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    line = "SKIPPED [3] tests/x.py:1: no cluster"
    run.Run(1).all_of([run.Step("some", [["printf", f"{line}\\n2 passed, 3 skipped in 1s\\n"]])])
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == line
    assert shown[1].endswith("2 passed, 3 skipped")


def test_running_tests_are_counted(tmp_path: Path) -> None:
    """The count is in a line that is printed while a test is still running."""
    tests, released = tmp_path / "test_hundred.py", tmp_path / "released"
    tests.write_text(HUNDRED_TESTS.format(released=str(released)))

    class Shown(io.StringIO):
        def write(self, text: str) -> int:
            if re.search(r"running: hundred tests \(\d+ s, \d+ of 100 tests\)", text):
                released.touch()
            return super().write(text)

    with contextlib.redirect_stdout(Shown()) as shown:
        step = run.Step(
            "hundred tests", [(*run.PYTEST, "-p", "no:randomly", "-n", "2", str(tests))]
        )
        run.Run(1, progress_seconds=0.1).all_of([step])
    assert shown.getvalue().splitlines()[-1].endswith("100 passed")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """A repository with one commit on the branch main, which `tests.run` asks about changes."""
    monkeypatch.setattr(run, "PROJECT", tmp_path)

    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.test", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True)

    git("init", "--quiet", "--initial-branch=main")
    (tmp_path / "old").write_text("old")
    git("add", ".")
    git("commit", "--quiet", "--message=first")
    return git


def test_changes_since_the_main_branch(clone: Git, tmp_path: Path) -> None:
    assert run.changed_files() is None, "nothing differs: all doors run"
    clone("checkout", "--quiet", "-b", "topic")
    (tmp_path / "committed ü").touch()
    clone("add", ".")
    clone("commit", "--quiet", "--message=second")
    (tmp_path / "old").write_text("new")
    (tmp_path / "untracked").touch()
    assert sorted(run.changed_files() or ()) == ["committed ü", "old", "untracked"]


def test_without_the_main_branch_all_doors_run(clone: Git, tmp_path: Path) -> None:
    clone("branch", "--move", "topic")
    (tmp_path / "new").touch()
    assert run.changed_files() is None


def test_without_git_all_doors_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PROJECT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert run.changed_files() is None
