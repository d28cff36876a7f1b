"""`queuegate-server token`: a token for its caller, a line with its hash for the server."""

import hashlib
import os
import stat
from pathlib import Path

from click.testing import CliRunner

from queuegate_server.cli.token import token


def test_a_new_token_and_its_line() -> None:
    result = CliRunner().invoke(token, ["dashboard"])
    first, second = result.stdout.splitlines()
    value = first.removeprefix("token, shown only once: ")
    assert second == f"line for callers.token_file: dashboard:{hashed(value)}"


def test_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    file = tmp_path / "dashboard.token"
    before = os.umask(0)
    try:
        result = CliRunner().invoke(token, ["dashboard", "--output-file", str(file)])
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert result.stdout == f"dashboard:{hashed(file.read_text().strip())}\n"


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "dashboard.token"
    file.write_text("before")
    result = CliRunner().invoke(token, ["dashboard", "--output-file", str(file)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{file}: already exists" in result.stderr
    assert file.read_text() == "before"


def hashed(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()
