"""Trees that are cut to what a reader and a terminal can take."""

from pathlib import Path
from typing import Any

import pytest

from queuegate._results import PolicyQueue
from queuegate.cli import main
from queuegate.cli.terminal import Colors
from queuegate.cli.tree_drawing import Drawing

Capture = pytest.CaptureFixture[str]


def policy(folder: Path, lines: str) -> tuple[str, str]:
    file = folder / "queues.yaml"
    file.write_text(f"partitions:\n  - name: default\n    queues:\n{lines}")
    return "--policy", str(file)


def test_a_tree_on_a_terminal(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ",".join(f"user{number}" for number in range(100))
    lines = (
        f'      - {{name: root, submitacl: "{names}", queues: [{{name: all, submitacl: "*"}}]}}\n'
    )
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    files = policy(tmp_path, lines)
    assert main(["tree", *files]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert len(first) == 60
    assert first.endswith("…")
    assert second == "└─ all  \x1b[32meveryone\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["tree", *files, "--user", "sue"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def wide(folder: Path) -> tuple[str, str]:
    """Return a policy of 61 queues below the root, each with three below it."""
    lines = "      - name: root\n        queues:\n"
    for number in range(61):
        lines += (
            f"          - {{name: q{number}, queues: [{{name: a}}, {{name: b}}, {{name: c}}]}}\n"
        )
    return policy(folder, lines)


def test_a_large_tree_is_cut(tmp_path: Path, capsys: Capture) -> None:
    files = wide(tmp_path)
    assert main(["tree", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["├─ q0", "│  └─ … 3 queues (--prefix root.q0)"]
    assert lines[-1] == "└─ … 11 more queues (--prefix root)"
    assert len(lines) == 1 + 2 * 50 + 1
    assert main(["tree", *files, "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 61 * 4
    assert main(["tree", *files, "--depth", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 61 * 2
    assert main(["tree", *files, "--depth", "0"]) == 0
    assert capsys.readouterr().out.splitlines() == ["root", "└─ … 61 queues (--prefix root)"]


def test_a_deep_tree(tmp_path: Path, capsys: Capture) -> None:
    """The tree of a path with very many levels is drawn without recursion."""
    queues = [{"path": ".".join(["root", *["a"] * level])} for level in range(1500)]
    shown: Any = [PolicyQueue(queue["path"], "", "", (), ()) for queue in queues]
    drawing = Drawing(shown, {}, Colors(on=False), None)
    assert sum(1 for _ in drawing.lines(None, None)) == 1500
