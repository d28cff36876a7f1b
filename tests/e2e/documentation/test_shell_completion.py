"""The page about shell completion: its scripts, in the real shells."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path("docs/how-to/shell-completion.md").read_text()
PROGRAMS = Path(sys.executable).parent

BASH = """\
. {script}
COMP_WORDS=({words}) COMP_CWORD={last}
_queuegate_completion queuegate
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """\
autoload -U compinit && compinit -u -D
_describe() {{ print -l -- "${{(@P)3}}" }}
compadd() {{ print -l -- "${{(@P)argv[-1]}}" }}
. {script}
[[ $_comps[queuegate] == _queuegate_completion ]] || exit 1
words=({words}) CURRENT={number}
_queuegate_completion
"""
FISH = """\
source {script}
complete -C '{line}'
"""
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("queuegate ch", {"check"}),
        ("queuegate check --acc", {"--access"}),
        ("queuegate check --access ", {"submit", "admin"}),
    ],
)
def test_completion(shell: str, line: str, expected: set[str], tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed (Debian: apt-get install {shell})")
    command = re.search(rf"`(_QUEUEGATE_COMPLETE={shell}_source queuegate) > ", PAGE)
    assert command
    script = tmp_path / "script"
    environment = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    written = subprocess.run(
        ["sh", "-c", f"{command[1]} > {script}"], env=environment, timeout=60, check=True
    )
    assert written.returncode == 0
    words = line.split(" ")
    program = SHELLS[shell].format(
        script=script,
        words=" ".join(word or "''" for word in words),
        last=len(words) - 1,
        number=len(words),
        line=line,
    )
    done = subprocess.run(
        [shell, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {re.split(r"[\t:]", text)[0] for text in done.stdout.splitlines()}
    assert expected <= found, done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_the_server_has_scripts_too(shell: str) -> None:
    assert "`_QUEUEGATE_SERVER_COMPLETE`" in PAGE
    done = subprocess.run(
        [PROGRAMS / "queuegate-server"],
        env={**os.environ, "_QUEUEGATE_SERVER_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "queuegate-server" in done.stdout
