"""ConfigMaps as Kubernetes mounts them."""

import gzip
from pathlib import Path

import pytest

from queuegate_server.files.configmap import ConfigMapFolders
from tests.support.servers.webhook import MountedConfigMap


@pytest.fixture
def defaults(tmp_path: Path) -> MountedConfigMap:
    return MountedConfigMap(tmp_path, "yunikorn-defaults")


@pytest.fixture
def configs(tmp_path: Path) -> MountedConfigMap:
    return MountedConfigMap(tmp_path, "yunikorn-configs")


def test_too_much(configs: MountedConfigMap) -> None:
    configs.write({f"k{number}": "x" * 1_000_000 for number in range(5)})
    with pytest.raises(OSError, match="more than 4194304 bytes"):
        ConfigMapFolders((configs.folder,)).read()


def test_compressed_keys(defaults: MountedConfigMap, configs: MountedConfigMap) -> None:
    two_parts = gzip.compress(b"mine, ") + gzip.compress(b"in two parts")
    defaults.write({"queues.yaml": "plain", "a.gz": gzip.compress(b"")})
    configs.write({"queues.yaml.gz": two_parts, "queues.yaml": "namesake"})
    assert ConfigMapFolders((defaults.folder, configs.folder)).read() == {
        "queues.yaml": b"mine, in two parts",
        "a": b"",
    }


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (b"partitions: []", "queues.yaml.gz is not in gzip format"),
        (gzip.compress(b"partitions: []")[:-9], "queues.yaml.gz is truncated"),
        (gzip.compress(b"x" * 5_000_000), "queues.yaml.gz holds more than 4194304 bytes"),
        (gzip.compress(b"x") + b"more", "queues.yaml.gz is not in gzip format"),
    ],
    ids=["plain", "cut", "bomb", "followed"],
)
def test_keys_that_cannot_be_expanded(configs: MountedConfigMap, value: bytes, fault: str) -> None:
    configs.write({"queues.yaml.gz": value})
    with pytest.raises(OSError, match=fault):
        ConfigMapFolders((configs.folder,)).read()


def test_only_files_are_keys(configs: MountedConfigMap) -> None:
    configs.write({"a": "1"})
    version = (configs.folder / "..data").resolve()
    (version / "folder").mkdir()
    (version / "..hidden").write_text("x")
    assert ConfigMapFolders((configs.folder,)).read() == {"a": b"1"}
