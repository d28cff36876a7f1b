"""Loading a policy: partitions, diagnostics and options."""

import pytest

from queuegate.policy.acl import AclNames
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.format_names import FORMATS
from queuegate_server.formats.registry import FormatOptions, load_policy
from tests.support.rows import rows

TWO = b"""
partitions:
  - name: Default
    usergroupresolver: {type: os}
    queues:
      - name: root
        submitacl: " Ops"
        queues:
          - name: Prod
            adminacl: sue,a:b dev.team
  - name: GPU
    queues:
      - name: a
        submitacl: a:b dev.team
      - name: b
"""


def test_builds_the_partitions() -> None:
    loaded = load_policy("yunikorn", TWO, "f")
    assert list(loaded.partitions) == ["default", "GPU"]
    default = loaded.partitions["default"]
    assert default.name == "default"
    assert default.resolver_type == "os"
    assert list(default.queues) == ["root", "root.prod"]
    assert default.queues["root"].submit_acl.groups == {"Ops"}
    assert default.queues["root.prod"].admin_acl.users == {"sue"}
    assert default.queues["root.prod"].admin_acl.text == "sue,a:b dev.team"
    gpu = loaded.partitions["GPU"]
    assert gpu.resolver_type == ""
    assert list(gpu.queues) == ["root", "root.a", "root.b"]


def test_dropped_names_are_warnings_with_queue_and_position() -> None:
    diagnostics = load_policy("yunikorn", TWO, "f").diagnostics
    assert [(p.line, p.column, p.severity, p.queue) for p in diagnostics] == [
        (10, 23, Severity.WARNING, "root.prod"),
        (10, 23, Severity.WARNING, "root.prod"),
        (14, 20, Severity.WARNING, "root.a"),
        (14, 20, Severity.WARNING, "root.a"),
    ]


def test_names_may_be_extended_everywhere() -> None:
    loaded = load_policy("yunikorn", TWO, "f", FormatOptions(acl_names=AclNames.EXTENDED))
    assert loaded.diagnostics == ()
    assert loaded.partitions["GPU"].queues["root.a"].submit_acl.groups == {"dev.team"}


def test_names_may_be_extended_by_partition() -> None:
    options = FormatOptions(acl_names={"GPU": AclNames.EXTENDED})
    loaded = load_policy("yunikorn", TWO, "f", options)
    assert {diagnostic.queue for diagnostic in loaded.diagnostics} == {"root.prod"}


def test_in_extended_mode_the_remedy_is_not_extended_mode() -> None:
    text = TWO.replace(b"a:b", b"a!b")
    diagnostics = load_policy(
        "yunikorn", text, "f", FormatOptions(acl_names=AclNames.EXTENDED)
    ).diagnostics
    assert {diagnostic.remedy for diagnostic in diagnostics} == {
        f"correct the name, or to accept it, set partitions.{name}.acl_names: any in the server's"
        " settings (queuegate.yaml)"
        for name in ("default", "GPU")
    }


def test_any_name_may_be_listed() -> None:
    text = TWO.replace(b"a:b", b"a!b")
    loaded = load_policy("yunikorn", text, "f", FormatOptions(acl_names=AclNames.ANY))
    assert loaded.diagnostics == ()
    partition = loaded.partitions["GPU"]
    assert partition.queues["root.a"].submit_acl.users == {"a!b"}
    assert partition.acl_names is AclNames.ANY


def test_all_errors_are_reported_and_no_partition_is_returned() -> None:
    text = TWO.replace(b"sue,a:b dev.team", b"sue  dev").replace(b"os}", b"ad}") + b"    bad: 1\n"
    loaded = load_policy("yunikorn", text, "f")
    assert loaded.partitions == {}
    errors = [
        diagnostic for diagnostic in loaded.diagnostics if diagnostic.severity is Severity.ERROR
    ]
    assert [diagnostic.line for diagnostic in errors] == [4, 10, 16]


def test_diagnostics_are_sorted() -> None:
    text = b"partitions:\n  - queues: []\n    queues: []\n    bad: 1\n  - queues: []\nworse: 1\n"
    lines = [diagnostic.line for diagnostic in load_policy("yunikorn", text, "f").diagnostics]
    assert lines == [3, 4, 5, 6]


@pytest.mark.parametrize("kind", ["none", "os", "test", "ldap", "''", "", "~"])
def test_known_resolvers(kind: str) -> None:
    text = f"partitions: [{{queues: [], usergroupresolver: {{type: {kind}}}}}]"
    loaded = load_policy("yunikorn", text.encode(), "f")
    assert loaded.diagnostics == ()
    assert loaded.partitions["default"].resolver_type == kind.strip("'~")


def test_resolvers_of_the_server_are_accepted_beside_the_known_ones() -> None:
    text = b"partitions: [{queues: [], usergroupresolver: {type: corp}}]"
    assert load_policy("yunikorn", text, "f").partitions == {}
    loaded = load_policy("yunikorn", text, "f", FormatOptions(resolver_types=frozenset({"corp"})))
    assert loaded.partitions["default"].resolver_type == "corp"
    other = text.replace(b"corp", b"os")
    assert load_policy(
        "yunikorn", other, "f", FormatOptions(resolver_types=frozenset({"corp"}))
    ).partitions


def test_a_document_without_partitions_is_valid_with_a_warning() -> None:
    loaded = load_policy("yunikorn", b"", "f")
    assert loaded.partitions == {}
    (diagnostic,) = loaded.diagnostics
    assert diagnostic.severity is Severity.WARNING
    assert "NOT_FOUND" in diagnostic.message


def test_unknown_format() -> None:
    with pytest.raises(ValueError, match="unknown policy format 'hadoop'; use one of cap"):
        load_policy("hadoop", b"", "f")
    assert sorted(FORMATS) == ["capacity-scheduler", "fair-scheduler", "kubernetes", "yunikorn"]


def test_merged_queues_have_the_position_of_their_source() -> None:
    text = b"""
partitions:
  - queues:
      - &common
        name: a
        submitacl: sue  dev
      - <<: *common
        name: b
"""
    positions = [
        (p.line, p.column, p.queue) for p in load_policy("yunikorn", text, "f").diagnostics
    ]
    assert positions == [(6, 20, "root.a"), (6, 20, "root.b")]


def test_every_key_of_the_schema() -> None:
    text = b"""
checksum: 0123456789ABCDEF
partitions:
  - name: default
    placementrules:
      - name: provided
        create: yes
        filter: {type: ALLOW, users: [], groups: [a.b, "not checked!"]}
        parent: {name: user, create: on, parent: {name: fixed, value: users}}
      - name: tag
        value: namespace
        filter: {users: ["^robot-.*$"], groups: [dev]}
      - {name: fixed, value: rest, create: ~}
    limits:
      - limit: all
        users: [sue, "*"]
        groups: [dev, "*"]
        maxapplications: 0x10
        maxresources: {memory: 10Gi, vcore: 500m}
    preemption: {enabled: off, quotapreemptionenabled: true}
    nodesortpolicy: {type: binpacking, resourceweights: {vcore: 1, memory: 0.5}}
    usergroupresolver: {type: os}
    queues:
      - name: root
        parent: ~
        maxapplications: 100
        properties: {application.sort.policy: fifo, 5: 6, empty: }
        adminacl: sue
        submitacl: "*"
        limits: []
        queues:
          - name: users
            parent: true
            maxapplications: 50
            resources:
              guaranteed: {memory: 1G, vcore: 100m, nvidia.com/gpu: 0}
              max: {memory: 2G}
            childtemplate:
              maxapplications: ~
              properties: {a: b}
              resources: {guaranteed: {memory: 1}, max: {}}
            limits:
              - limit: ""
                users: [system:serviceaccount:ns:name]
                maxapplications: 1
            queues: ~
          - {name: rest, maxapplications: 1}
"""
    loaded = load_policy("yunikorn", text, "f")
    assert loaded.diagnostics == ()
    assert list(loaded.partitions["default"].queues) == ["root", "root.users", "root.rest"]


@rows
def test_amounts_of_an_empty_child_template_are_not_read(template: str, is_valid: bool) -> None:
    text = f"partitions: [{{queues: [{{name: root, childtemplate: {{{template}}}}}]}}]"
    loaded = load_policy("yunikorn", text.encode(), "f")
    assert bool(loaded.partitions) is is_valid, loaded.diagnostics
