"""What lint says about the capacity scheduler's rules that choose a queue."""

from typing import Any

import pytest

from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.registry import FormatOptions, check_file
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import prop
from tests.support.rows import rows
from tests.support.yarn_mappings import (
    FORMAT,
    JSON_RULES,
    MAPPINGS,
    NO_JSON,
    PLACEMENT,
    REFUSED,
    REFUSED_RULES,
    VALID,
    VALID_RULES,
    one_rule,
    scheduler,
)

QUEUE = "yarn.scheduler.capacity.root"
ACL = f"{QUEUE}.prod.etl.acl_submit_applications"
TEMPLATE = f"{QUEUE}.deep.auto-queue-creation-v2.leaf-template.acl_submit_applications"


def found(*, site: str = "", **properties: str) -> list[str]:
    """Return what lint says about a file with these properties, and nothing at validation."""
    return [each.message for each in warnings_about(site=site, **properties)]


def warnings_about(*, site: str = "", **properties: str) -> list[Diagnostic]:
    """Return lint's warnings about a file with these properties, and nothing at validation."""
    data = scheduler(**properties).encode()
    on = f"<configuration>{prop('yarn.acl.enable', 'true')}{prop('yarn.admin.acl', ' ')}"
    options = FormatOptions(
        yarn=YarnOptions(site=(f"{on}{site}</configuration>".encode(), "yarn-site.xml"))
    )
    assert not check_file("capacity-scheduler", data, "f.xml", options, with_lint=False)
    warnings = check_file("capacity-scheduler", data, "f.xml", options, with_lint=True)
    assert all(each.severity is Severity.WARNING for each in warnings)
    assert {(each.file, each.line) for each in warnings} <= {("f.xml", 2)}
    return warnings


@pytest.mark.parametrize("mappings", VALID)
def test_valid_mappings(mappings: str) -> None:
    assert not found(**{MAPPINGS: mappings})


@pytest.mark.parametrize(("mapping", "fault"), REFUSED)
def test_mappings_that_hadoop_refuses(mapping: str, fault: str) -> None:
    assert found(**{MAPPINGS: f"{VALID[0]}, {mapping},u:a:etl"}) == [f'"{mapping}" {fault}']


def test_mappings_of_applications() -> None:
    key = f"{PLACEMENT}.app-name"
    assert not found(**{key: "spark:etl,hive:root.auto.%user"})
    [first, second] = found(**{key: "spark:root.nope,u:ann:etl"})
    assert first == '"spark:root.nope" maps to a queue that does not exist'
    assert second == '"u:ann:etl" is not a mapping of the form APPLICATION:QUEUE'


def test_values_with_variables_are_not_judged() -> None:
    assert not found(**{MAPPINGS: "u:ann:${queue},${more}"})
    assert not found(**{FORMAT: "json", JSON_RULES: "${rules}"})
    assert not found(**{FORMAT: "${fmt}", JSON_RULES: "nonsense", MAPPINGS: "nonsense"})


@pytest.mark.parametrize("rule", VALID_RULES)
def test_valid_json_rules(rule: dict[str, Any]) -> None:
    assert not found(**{FORMAT: "json", JSON_RULES: one_rule(rule), MAPPINGS: "nonsense"})


@pytest.mark.parametrize(("rule", "fault"), REFUSED_RULES)
def test_json_rules_that_hadoop_refuses(rule: dict[str, Any], fault: str) -> None:
    [message] = found(**{FORMAT: "json", JSON_RULES: one_rule(rule)})
    assert message.startswith(f"rule 2 of {JSON_RULES} {fault}")


@pytest.mark.parametrize(("text", "fault"), NO_JSON)
def test_broken_json(text: str, fault: str) -> None:
    [message] = found(**{FORMAT: "json", JSON_RULES: text})
    assert message.startswith(fault)
    [unused] = found(**{JSON_RULES: text})
    assert unused == f"{JSON_RULES} has no effect unless {FORMAT} is json"


def test_another_format() -> None:
    [warning] = warnings_about(**{FORMAT: "JSON", JSON_RULES: "{}", MAPPINGS: "x"})
    assert warning.message == f'{FORMAT} is "JSON", neither legacy nor json'
    remedy = "write legacy or json: the ResourceManager does not start with another format"
    assert warning.remedy == remedy
    [warning] = warnings_about(**{JSON_RULES: "{}"})
    assert warning.remedy == f"set {FORMAT} to json, or remove {JSON_RULES}"


@pytest.mark.parametrize(
    ("rules", "count"), [("user-group", 1), ("a.B, app-name", 1), ("a.B", 0), ("", 1)]
)
def test_other_placement_rules_read_no_mappings(rules: str, count: int) -> None:
    assert len(found(site=prop(PLACEMENT, rules), **{MAPPINGS: "nonsense"})) == count


@pytest.mark.parametrize(
    ("rules", "key"),
    [
        ({MAPPINGS: "u:ann:root.prod.etl, g : data : etl"}, MAPPINGS),
        ({MAPPINGS: "u:data2:etl,g:data:etl"}, MAPPINGS),
        ({MAPPINGS: "u:data:etl,g:data:etl"}, MAPPINGS),
        ({FORMAT: "json", JSON_RULES: one_rule({"type": "group", "matches": "data"})}, JSON_RULES),
    ],
)
@pytest.mark.parametrize("acl", ["data", "ann,data", "data ops"])
def test_a_group_of_a_mapping_that_is_a_user_in_an_acl(
    rules: dict[str, str], key: str, acl: str
) -> None:
    expected = f'"data" is a user in this ACL, but {key} uses it as a group'
    for place in (ACL, TEMPLATE):
        assert found(**rules, **{place: acl}) == [expected]


@pytest.mark.parametrize("mappings", ["g:data:etl", "g:data:etl,u:data:etl", "u:data:etl"])
@pytest.mark.parametrize("admins", ["data", "ann,data ops", " data", "${env.ADMINS}"])
def test_a_group_of_a_mapping_that_is_a_user_in_the_administrators(
    mappings: str, admins: str
) -> None:
    site = f"<configuration>\n{prop('yarn.acl.enable', 'true')}\n{prop('yarn.admin.acl', admins)}"
    options = FormatOptions(
        yarn=YarnOptions(site=(f"{site}</configuration>".encode(), "yarn-site.xml"))
    )
    data = scheduler(**{MAPPINGS: mappings}).encode()
    warnings = [
        (each.file, each.line)
        for each in check_file("capacity-scheduler", data, "f.xml", options, with_lint=True)
        if each.message == f'"data" is a user in this ACL, but {MAPPINGS} uses it as a group'
    ]
    is_user = admins in {"data", "ann,data ops"} and "g:" in mappings
    assert warnings == ([("yarn-site.xml", 3)] if is_user else [])


@rows
def test_names_of_mappings_that_an_acl_uses_alike(mappings: str, acl: str) -> None:
    assert not [each for each in found(**{MAPPINGS: mappings, ACL: acl}) if "as a group" in each]
