"""The contract: its stubs are up to date, its rules hold, foreign bytes parse."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.e2e.packaging.dockerfile import PROJECT
from tests.support.go_toolchain import BUILD_SECONDS
from tests.support.rows import rows


@pytest.fixture(scope="module")
def generated(go: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stubs that were generated just now."""
    folder = tmp_path_factory.mktemp("stubs")
    subprocess.run(
        [sys.executable, "-m", "proto.generate", folder],
        cwd=PROJECT,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return folder


@pytest.mark.timeout(BUILD_SECONDS)
@pytest.mark.parametrize("stubs", ["queuegate/v1", "go/queuegate/v1"])
def test_stubs_are_what_the_contract_generates(generated: Path, stubs: str) -> None:
    fresh = {path.name: path.read_bytes() for path in (generated / stubs).iterdir()}
    committed = {
        path.name: path.read_bytes()
        for path in (PROJECT / "client" / stubs).iterdir()
        if path.is_file() and path.name != "__init__.py"
    }
    assert sorted(fresh) == sorted(committed)
    changed = [name for name, text in fresh.items() if committed[name] != text]
    assert changed == [], "run `make proto`"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """The contract, alone."""
    return shutil.copytree(
        PROJECT / "proto", tmp_path / "proto", ignore=shutil.ignore_patterns("*.py", "__*")
    )


def buf(module: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sysconfig.get_path("scripts")) / "buf", *arguments],
        cwd=module,
        env=os.environ | {"BUF_CACHE_DIR": str(module.parent / "cache")},
        text=True,
        capture_output=True,
        check=False,
    )


def test_rules_of_the_contract_hold(module: Path) -> None:
    result = buf(module, "lint")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@rows
def test_rules_find_what_they_are_for(module: Path, message: str, finding: str) -> None:
    bad = module / "queuegate" / "v1" / "bad.proto"
    bad.write_text(f'syntax = "proto3";\npackage queuegate.v1;\n{message}\n')
    result = buf(module, "lint")
    assert result.returncode == 100
    assert finding in result.stdout


@pytest.mark.parametrize(
    ("before", "after", "finding"),
    [
        ("bool allowed = 1;", "bool allowed = 99;", 'present field "1" with name "allowed"'),
        ("rpc ListQueues(", "rpc Queues(", 'present RPC "ListQueues"'),
    ],
)
def test_breaks_are_found(module: Path, before: str, after: str, finding: str) -> None:
    file = module / "queuegate" / "v1" / "access.proto"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    result = buf(module, "breaking", "--against", "released.binpb")
    assert result.returncode == 100
    assert finding in result.stdout


def field(number: int, text: str) -> bytes:
    """Encode a text field by hand: tag, length, UTF-8."""
    data = text.encode()
    return bytes([number << 3 | 2, len(data)]) + data


def test_bytes_of_the_scheduler_interface_parse_as_ours() -> None:
    """`si.v1.UserGroupInformation` has `user = 1` and `groups = 2`; built from that alone."""
    data = b"\x0a\x04anna" + b"\x12\x03dev" + b"\x12\x05admin"
    assert data == field(1, "anna") + field(2, "dev") + field(2, "admin")
    message = UserGroupInformation.FromString(data)
    assert (message.user, list(message.groups)) == ("anna", ["dev", "admin"])
    assert UserGroupInformation(user="anna", groups=["dev", "admin"]).SerializeToString() == data


def test_fields_of_a_later_scheduler_interface_are_kept() -> None:
    data = field(1, "anna") + field(3, "new")
    message = UserGroupInformation.FromString(data)
    assert (message.user, message.SerializeToString()) == ("anna", data)
