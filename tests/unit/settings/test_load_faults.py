"""Errors in the settings, with their location."""

from pathlib import Path

import pytest

from queuegate_server.formats.yunikorn.document import PARTITION_SETTINGS, SETTINGS_KEYS
from queuegate_server.settings.load import MAX_BYTES, SettingsError, load_settings
from queuegate_server.settings.model import PartitionSettings, Settings
from queuegate_server.supervisor.channel import MAX_MESSAGE_BYTES
from tests.support.settings_faults import faults

MEMBERS = "resolvers:\n  a: {type: os}\n  b: {type: test}\n"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("polcy: {}", "1:1: error: polcy: unknown key (did you mean policy?)"),
        (
            'log: {"a\\n1:1: error: \\e[2J": 1}',
            r"1:7: error: log.a\n1:1: error: \u001b[2J: unknown key (known keys are format, level)",
        ),
        (
            "drain:\n  gracee: 1s",
            "2:3: error: drain.gracee: unknown key (did you mean grace?)",
        ),
        (
            "drain:\n  z: 1s",
            "2:3: error: drain.z: unknown key (known keys are delay, grace)",
        ),
        (
            "partitions: {a: {cache: {positive_tll: 1s}}}",
            (
                "1:26: error: partitions.a.cache.positive_tll: unknown key "
                "(did you mean positive_ttl?)"
            ),
        ),
        (
            "resolvers: {r: {type: os, lookup_timeuot: 1s}}",
            "1:27: error: resolvers.r.lookup_timeuot: unknown key (did you mean lookup_timeout?)",
        ),
        (
            "drain: 5",
            "1:8: error: drain: must be a section of keys and values (known keys are delay, grace)",
        ),
        (
            "drain: [5]",
            "1:1: error: drain: must be a section of keys and values (known keys are delay, grace)",
        ),
        ("partitions: 5", "1:13: error: partitions: must be a section of keys and values"),
        ("resolvers: {r: os}", "1:16: error: resolvers.r: must be a section of keys and values"),
        (
            "resolvers:\n  r: {lookup_timeout: 1s}",
            (
                "2:3: error: resolvers.r.type: is required: choose one of chain, entra, keycloak,"
                " ldap, no_groups, none, okta, os, test"
            ),
        ),
        (
            "resolvers:\n  r:",
            (
                "2:3: error: resolvers.r.type: is required: choose one of chain, entra, keycloak,"
                " ldap, no_groups, none, okta, os, test"
            ),
        ),
        (
            "resolvers: {r: {type: ldpa}}",
            (
                "1:23: error: resolvers.r.type: this build has no `ldpa` resolver; it has "
                "`chain`, `entra`, `keycloak`, `ldap`, `no_groups`, `none`, `okta`, `os`, `test`"
            ),
        ),
        (
            "resolvers: {r: {type: os, max_concurrent: 0}}",
            "1:43: error: resolvers.r.max_concurrent: must be at least 1",
        ),
        (
            "partitions:\n  a:\n    resolver: corp",
            (
                "3:15: error: partitions.a.resolver: there is no resolver named corp "
                "(add it to resolvers, which contains nothing)"
            ),
        ),
        (
            f"{MEMBERS}  all: {{type: chain, resolvers: [a, c]}}",
            (
                "4:37: error: resolvers.all.resolvers[1]: there is no resolver named c "
                "(add it to resolvers, which contains a, b, all)"
            ),
        ),
        (
            f"{MEMBERS}  c: {{type: chain}}\n  all: {{type: chain, resolvers: [a, c]}}",
            (
                "5:37: error: resolvers.all.resolvers[1]: c is a chain, and chains cannot be "
                "nested "
                "(name its resolvers instead)"
            ),
        ),
        (
            f"{MEMBERS}  all: {{type: chain, resolvers: [all, a]}}",
            (
                "4:34: error: resolvers.all.resolvers[0]: all is a chain, and chains cannot "
                "be nested "
                "(name its resolvers instead)"
            ),
        ),
        (
            f"{MEMBERS}  all: {{type: chain, resolvers: [a, b, a]}}",
            "4:22: error: resolvers.all.resolvers: the resolver a is listed twice",
        ),
        (
            f"{MEMBERS}  all: {{type: chain, resolvers: [a]}}",
            (
                "4:22: error: resolvers.all.resolvers: a chain needs at least two resolvers, and "
                "this one has only a"
            ),
        ),
        (
            f"{MEMBERS}  all: {{type: chain, resolvers: []}}",
            "4:22: error: resolvers.all.resolvers: must not be empty",
        ),
        (
            f"{MEMBERS}  all: {{type: chain}}",
            "4:3: error: resolvers.all.resolvers: is required",
        ),
        (
            f"{MEMBERS}  all: {{type: chain, resolvers: a}}",
            "4:33: error: resolvers.all.resolvers: must be a list",
        ),
        (
            f"{MEMBERS}  all: {{type: chain, resolvers: [a, b], mode: last}}",
            "4:47: error: resolvers.all.mode: must be 'first' or 'union'",
        ),
        (
            f"{MEMBERS}  all: {{type: chain, resolvers: [a, b], lookup_timeout: 1s}}",
            (
                "4:41: error: resolvers.all.lookup_timeout: unknown key (known keys are mode, "
                "resolvers, type)"
            ),
        ),
        ("listen: []", "1:1: error: listen: must not be empty"),
        (
            "listen: ['']",
            "1:10: error: listen[0]: not an address: write host:port, [ipv6]:port or unix:/path",
        ),
        (
            "listen:\n  - a:1\n  - a:70000",
            "3:5: error: listen[1]: the port must be a number from 0 to 65535",
        ),
        (
            "listen: ['[::1]:1', '[::1]:1']",
            "1:1: error: listen: the address [::1]:1 is listed twice",
        ),
        (
            "listen: [[a]]",
            (
                "1:10: error: listen[0]: must be a section of keys and values "
                "(known keys are address, group, insecure, mode, owner, tls)"
            ),
        ),
        (
            "unix_socket_mode: 660x",
            "1:19: error: unix_socket_mode: not a file mode: write it in octal, such as 0660",
        ),
        ("policy: {path: ''}", "1:16: error: policy.path: must be the path of a file"),
        (
            "policy: {format: x}",
            "1:18: error: policy.format: must be 'yunikorn', 'fair-scheduler' or"  # noqa: ISC004
            " 'capacity-scheduler'",
        ),
        (
            "policy: {yarn_site: b}",
            (
                "1:1: error: policy: yarn_site applies to a YARN scheduler's file, "
                "but path is not set; correct or remove it"
            ),
        ),
        (
            "policy: {format: fair-scheduler, configs: a}",
            (
                "1:1: error: policy: format applies to a YARN scheduler's file, "
                "but path is not set; correct or remove it"
            ),
        ),
        (
            "policy: {format: yunikorn, path: a, partition: b}",
            (
                "1:1: error: policy: partition applies to a YARN scheduler's file, "
                "but format is yunikorn; correct or remove it"
            ),
        ),
        (
            "policies: [{path: a}, {spark_defaults: b}]",
            "1:1: error: policies: each entry needs path, configs or defaults",
        ),
        (
            "policies: [{path: a, partition: '[rm]x'}]",
            (
                "1:33: error: policies[0].partition: [rm]x is not a partition name: write it as in"
                " the policy, without `[…]`"
            ),
        ),
        (
            "log: {format: text}",
            "1:15: error: log.format: must be 'auto', 'json' or 'console'",
        ),
        (
            "partitions: {a: {acl_names: all}}",
            "1:29: error: partitions.a.acl_names: must be 'yunikorn', 'extended' or 'any'",
        ),
        (
            "partitions: {a: {trust_provided_groups: maybe}}",
            "1:41: error: partitions.a.trust_provided_groups: must be true or false",
        ),
        (
            "limits: {max_concurrent_calls: many}",
            "1:32: error: limits.max_concurrent_calls: must be a whole number",
        ),
        ("limits: {caller_rate: fast}", "1:23: error: limits.caller_rate: must be a number"),
        ("limits: {caller_rate: .inf}", "1:23: error: limits.caller_rate: must be a number"),
        (
            "limits: {max_message: 5GiB}",
            "1:23: error: limits.max_message: must be at most 1GiB",
        ),
        (
            "limits: {max_message: big}",
            (
                "1:23: error: limits.max_message: not a size: write a number with a unit "
                "(B, KiB, MiB, GiB, kB, MB, GB), such as 64KiB or 4MiB, or a number of bytes"
            ),
        ),
        ("drain: {grace: 2h}", "1:16: error: drain.grace: must be at most 1h"),
        ("limits: {max_wait: 0}", "1:20: error: limits.max_wait: must be at least 1ms"),
        ("limits: {caller_rate: 2e6}", "1:23: error: limits.caller_rate: must be at most 1000000"),
        (
            "resolvers: {r: {type: os, lookup_timeout: 61s}}",
            "1:43: error: resolvers.r.lookup_timeout: must be at most 1m",
        ),
        (
            "ops: {listen: 9464x}",
            "1:15: error: ops.listen: not an address: write host:port or [ipv6]:port",
        ),
        (
            "audit: {records: some}",
            "1:18: error: audit.records: must be 'denials', 'all' or 'none'",
        ),
        (
            "audit: {fsync: now}",
            "1:16: error: audit.fsync: must be 'never', 'interval' or 'always'",
        ),
        ("audit: {max_size: 1KiB}", "1:19: error: audit.max_size: must be at least 4KiB"),
        (
            "drain: {grace: -1s}",
            (
                "1:16: error: drain.grace: not a duration: write a number with a unit "
                "(ms, s, m, h, d), such as 250ms, 30s, 1h30m, or a number of seconds"
            ),
        ),
        (
            "partitions: {'[rm]default': {}}",
            (
                "1:1: error: partitions: [rm]default is not a partition name: write it as in "
                "the policy, without `[…]`"
            ),
        ),
        (
            "partitions: {default: {}, DEFAULT: {}}",
            "1:1: error: partitions: the partition default is listed twice",
        ),
    ],
)
def test_error_in_the_file_is_located(file: Path, text: str, fault: str) -> None:
    assert f"queuegate.yaml:{fault}" in faults(file, text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("listen: ['[::1]:1']\nlisten: ['[::1]:2']", "queuegate.yaml:2:1: "),
        ("listen: [", "queuegate.yaml:2:1: error: invalid YAML: "),
        ("- a", "queuegate.yaml: error: contains no keys (write keys and values"),
        ("text", "queuegate.yaml: error: contains no keys (write keys and values"),
    ],
)
def test_file_without_settings_is_an_error(file: Path, text: str, place: str) -> None:
    [fault] = faults(file, text)
    assert fault.startswith(place)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("partitions: [{name: default}]", "yunikorn"),
        ("checksum: x\npartitions:\n  - queues: [{name: root, log: 1}]", "yunikorn"),
        ("<?xml version='1.0'?><allocations/>", "fair-scheduler"),
        (
            "<configuration><name>yarn.scheduler.capacity.root.queues</name></configuration>",
            "capacity-scheduler",
        ),
        ("spark.acls.enable true", "spark-defaults"),
    ],
)
def test_a_file_of_a_scheduler_is_recognised(file: Path, text: str, kind: str) -> None:
    [fault] = faults(file, text)
    assert fault == (
        f"queuegate.yaml: error: this is a scheduler file ({kind}), not the settings of"
        " queuegate-server (it is a FILE for validate and lint; other commands take it as --policy)"
    )


def test_a_list_of_partitions_among_settings_is_an_error_of_its_own(file: Path) -> None:
    [fault] = faults(file, "partitions: [default]\nlisten: [127.0.0.1:1]")
    assert fault == "queuegate.yaml:1:1: error: partitions: must be a section of keys and values"


def test_policies_know_the_keys_of_the_settings() -> None:
    assert SETTINGS_KEYS | {"partitions"} == Settings.model_fields.keys()
    assert PartitionSettings.model_fields.keys() == PARTITION_SETTINGS


def test_missing_file_is_an_error(file: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(file)
    assert str(caught.value) == (
        "queuegate.yaml: error: cannot be read: No such file or directory (check the path)"
    )


@pytest.mark.parametrize("source", ["path", "configs", "defaults"])
def test_policy_and_policies_exclude_each_other(file: Path, source: str) -> None:
    (fault,) = faults(file, f"policy: {{{source}: a}}\npolicies: [{{path: b}}]")
    assert "set either policy or policies, not both" in fault


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    file = tmp_path / "queuegate.yaml"
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(SettingsError, match="is larger than 4 MiB"):
        load_settings(file)
    with pytest.raises(SettingsError, match="is larger than 4 MiB"):
        load_settings(file, content=file.read_bytes())
    # A message to a worker holds the file twice, in base64.
    assert 2 * MAX_BYTES * 4 / 3 < MAX_MESSAGE_BYTES
