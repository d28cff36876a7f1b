"""The mounted ConfigMaps of the scheduler as the source of the policy."""

from pathlib import Path

import pytest

from queuegate_server.files.configmap import ConfigMapFolders
from queuegate_server.files.watcher import OneFile
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.policystore.loader import ConfigMaps, policy_files
from queuegate_server.settings.model import PolicySource
from tests.support.servers.webhook import MountedConfigMap


@pytest.fixture
def defaults(tmp_path: Path) -> MountedConfigMap:
    return MountedConfigMap(tmp_path, "yunikorn-defaults")


@pytest.fixture
def configs(tmp_path: Path) -> MountedConfigMap:
    return MountedConfigMap(tmp_path, "yunikorn-configs")


def source(
    defaults: MountedConfigMap, configs: MountedConfigMap, group: str | None = None
) -> ConfigMaps:
    return ConfigMaps((defaults.folder, configs.folder), group)


def test_configs_win(defaults: MountedConfigMap, configs: MountedConfigMap) -> None:
    defaults.write({"queues.yaml": "default", "a": "1", "b": "1"})
    assert source(defaults, configs).read() == b"default"
    configs.write({"queues.yaml": "mine", "b": "2"})
    assert source(defaults, configs).read() == b"mine"
    assert ConfigMapFolders((defaults.folder, configs.folder)).read() == {
        "queues.yaml": b"mine",
        "a": b"1",
        "b": b"2",
    }


def test_policy_group(defaults: MountedConfigMap, configs: MountedConfigMap) -> None:
    defaults.write({"service.policyGroup": "prod", "prod.yaml": "p", "queues.yaml": "q"})
    assert source(defaults, configs).read() == b"p"
    configs.write({"service.policyGroup": "queues"})
    assert source(defaults, configs).read() == b"q"
    assert source(defaults, configs, group="prod").read() == b"p"


def test_a_link_that_is_not_yet_removed(
    defaults: MountedConfigMap, configs: MountedConfigMap
) -> None:
    """The kubelet swaps the version first; the links of keys that are gone it removes later."""
    configs.write({"queues.yaml": "q"})
    before = source(defaults, configs).status()
    (configs.folder / "gone.yaml").symlink_to("..data/gone.yaml")
    assert source(defaults, configs).status() != before
    assert source(defaults, configs).read() == b"q"


def test_no_queues_is_no_policy(defaults: MountedConfigMap, configs: MountedConfigMap) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        source(defaults, configs).read()
    assert caught.value.strerror == "there is no queues.yaml"
    configs.write({"service.policyGroup": "prod", "queues.yaml": "q"})
    with pytest.raises(FileNotFoundError) as caught:
        source(defaults, configs).read()
    assert caught.value.strerror == "there is no prod.yaml, which service.policyGroup names"


def test_a_swap_changes_the_status(defaults: MountedConfigMap, configs: MountedConfigMap) -> None:
    files = source(defaults, configs)
    seen = set()
    for text in ("a", "b", "a"):
        configs.write({"queues.yaml": text})
        seen.add(files.status())
        assert files.status() in seen
    assert len(seen) == 3


def test_what_the_settings_name(tmp_path: Path) -> None:
    assert policy_files(PolicySource()).name.endswith("default_queues.yaml")
    one = policy_files(PolicySource(path=tmp_path / "q.yaml"))
    assert isinstance(one, OneFile)
    assert one.name == str(tmp_path / "q.yaml")
    both = policy_files(PolicySource(defaults=tmp_path / "d", configs=tmp_path / "c"))
    assert both.name == f"{tmp_path / 'd'}+{tmp_path / 'c'}"
    with pytest.raises(ValueError, match="path cannot be combined with configs"):
        PolicySource(path=tmp_path, configs=tmp_path)


def test_a_huge_file_is_read_only_until_it_is_refused(tmp_path: Path) -> None:
    huge = tmp_path / "queues.yaml"
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    assert len(OneFile(huge, MAX_BYTES).read()) == MAX_BYTES + 1
