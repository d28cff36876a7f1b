"""Settings from all sources together."""

import os
from pathlib import Path

import pytest
import yaml

from queuegate.policy.acl import AclNames
from queuegate_server.identity.resolver_types import resolver_type
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import PartitionSettings, Settings

EXAMPLE = Path(__file__).parents[3] / "examples" / "queuegate.yaml"


def test_nothing_set_is_the_default() -> None:
    settings = load_settings()
    assert settings == Settings()
    assert [each.address for each in settings.listen] == ["127.0.0.1:50051"]
    assert settings.policy.path is None
    assert settings.limits.max_message == 4 * 1024 * 1024
    assert settings.drain.grace == 20.0


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "---\n", "null\n", "{}\n", "limits:\ndrain: ~\n"]
)
def test_empty_file_is_the_default(file: Path, text: str) -> None:
    file.write_text(text)
    assert load_settings(file) == Settings()


def test_the_example_lists_the_defaults() -> None:
    settings = load_settings(EXAMPLE)
    assert settings.policy.path == Path("examples/queues.yaml")
    accounts = settings.resolvers["accounts"]
    assert (accounts.type, accounts.options) == ("os", resolver_type("os").Options())
    assert settings.partitions == {"default": PartitionSettings(resolver="accounts")}
    compared = (
        "listen", "callers", "reflection", "limits", "drain", "log", "ops",
        "audit", "sync",
    )  # fmt: skip
    for section in compared:
        assert getattr(settings, section) == getattr(Settings(), section), section


def test_the_example_lists_every_option_of_its_resolver() -> None:
    named = yaml.safe_load(EXAMPLE.read_text())["resolvers"]["accounts"]
    assert set(named) == {"type", *resolver_type("os").Options.model_fields}


def test_options_override_variables_which_override_the_file(file: Path) -> None:
    file.write_text("log: {level: info, format: json}\ndrain: {grace: 1s, delay: 1s}\n")
    settings = load_settings(
        file,
        {"QUEUEGATE_DRAIN__GRACE": "2s", "QUEUEGATE_DRAIN__DELAY": "2s"},
        ["drain.delay=3s"],
    )
    assert (settings.drain.grace, settings.drain.delay) == (2.0, 3.0)
    assert (settings.log.level, settings.log.format) == ("info", "json")


def test_every_kind_of_value_can_come_from_a_variable() -> None:
    settings = load_settings(
        None,
        {
            "QUEUEGATE_LISTEN": "127.0.0.1:1, unix:/run/q.sock",
            "QUEUEGATE_POLICY__PATH": "/etc/queues.yaml",
            "QUEUEGATE_LIMITS__MAX_MESSAGE": "1MiB",
            "QUEUEGATE_LIMITS__MAX_CONCURRENT_CALLS": "7",
            "QUEUEGATE_LOG__LEVEL": "DEBUG",
            "QUEUEGATE_PARTITIONS__DEFAULT__TRUST_PROVIDED_GROUPS": "false",
            "QUEUEGATE_PARTITIONS__DEFAULT__ACL_NAMES": "extended",
            "QUEUEGATE_PARTITIONS__DEFAULT__CACHE__MAX_STALE": "0",
            "QUEUEGATE_PARTITIONS__DEFAULT__RESOLVER": "local",
            "QUEUEGATE_RESOLVERS": '{"local": {"type": "none"}}',
            "QUEUEGATE_ADDRESS": "of the client",
        },
    )
    assert [each.address for each in settings.listen] == ["127.0.0.1:1", "unix:/run/q.sock"]
    assert settings.policy.path == Path("/etc/queues.yaml")
    assert settings.limits.max_message == 1024 * 1024
    assert settings.limits.max_concurrent_calls == 7
    assert settings.log.level == "debug"
    assert settings.resolvers["local"].type == "none"
    partition = settings.partitions["default"]
    assert not partition.trust_provided_groups
    assert partition.acl_names is AclNames.EXTENDED
    assert partition.cache.max_stale == 0.0
    assert partition.resolver == "local"


def test_paths_keep_their_text(file: Path) -> None:
    file.write_text("policy: {path: 007}\n")
    assert load_settings(file).policy.path == Path("007")
    assert load_settings(None, {}, ['policy.path="/a \\u00e9"']).policy.path == Path("/a é")


@pytest.mark.parametrize("name", ["default", "DEFAULT", "Default"])
def test_default_partition_matches_in_any_case(name: str) -> None:
    settings = load_settings(None, {}, [f"partitions.{name}.acl_names=extended"])
    assert settings.partitions["default"].acl_names is AclNames.EXTENDED


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().log.level = "debug"  # type: ignore[misc]


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "queuegate.yaml"
    with file.open("wb") as opened:
        opened.truncate(1 << 40)
    with pytest.raises(SettingsError) as caught:
        load_settings(file)
    assert "the file is larger than" in str(caught.value.diagnostics[0])


def test_a_pipe_is_refused(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(SettingsError) as caught:
        load_settings(file)
    assert str(caught.value).startswith("queuegate.yaml: error: cannot be read: not a regular file")
