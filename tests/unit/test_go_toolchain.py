"""Go of the path is used if it is new enough; otherwise the pinned one is installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import go_toolchain
from tests.support.go_toolchain import GHZ, GRPC_HEALTH_PROBE, KUSTOMIZE, GoError
from tests.support.rows import rows


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    go_toolchain.go.cache_clear()
    yield
    go_toolchain.go.cache_clear()


@rows
def test_go_of_the_path_is_used_if_it_is_new_enough(
    prints: str | None, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if prints:
        command = tmp_path / "go"
        command.write_text(f"#!/bin/sh\necho {prints}\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(go_toolchain, "_TOOLS", tmp_path / "tools")
    monkeypatch.setattr(go_toolchain, "_install", Path.mkdir)
    found = go_toolchain.go()
    assert (found == tmp_path / "go") == is_used
    assert found.is_relative_to(tmp_path / "tools") != is_used


def test_a_failure_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "go"
    command.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = env ]; then echo go1.26; exit; fi\n'
        "echo 'go: downloading github.com/x v1' >&2\n"
        "echo 'go: https://modules.example/x: no such host' >&2\n"
        "exit 1\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    expected = r"^`go build \.` failed: go: \(an address\): no such host$"
    with pytest.raises(GoError, match=expected):
        go_toolchain.run("build", ".")


def test_programs_have_the_names_that_go_gives_them() -> None:
    names = [each.name for each in (GHZ, GRPC_HEALTH_PROBE, KUSTOMIZE)]
    assert names == ["ghz", "grpc-health-probe", "kustomize"]
