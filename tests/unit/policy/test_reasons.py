"""A reason owns its outcome: whatever says whether a reason grants agrees with its table."""

import ast
import itertools
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from queuegate._applications import Application, ApplicationCheck
from queuegate._types import Check, Decision
from queuegate.cli import render
from queuegate.cli.terminal import Colors
from queuegate.policy import decision as decisions
from queuegate.policy.decision import OUTCOMES, Reason
from queuegate.policy.explain import GRANTED
from queuegate.v1 import access_pb2
from queuegate_server.decisions.log import GRANTS as GRANTS_BY_NUMBER
from queuegate_server.decisions.log import NUMBERS, DecisionLog
from queuegate_server.rpc import columns, messages
from queuegate_server.rpc.response_cache import CachedResponse

GO = Path("client/go/queuegate")
GRANTS = {str(reason): outcome.grants for reason, outcome in OUTCOMES.items()}
"""By the value of each reason: whether it grants."""


def words(texts: Mapping[str, str]) -> dict[str, bool]:
    """Return by reason whether its text begins with a word for a grant; it must have one."""
    first = {reason: re.split(r"\W", text.lower(), maxsplit=1)[0] for reason, text in texts.items()}
    assert set(first.values()) <= {"granted", "allowed", "denied"}
    return {reason: word != "denied" for reason, word in first.items()}


def test_every_reason_has_an_outcome() -> None:
    assert set(OUTCOMES) == set(Reason) - {Reason.UNSPECIFIED}


def test_docstrings_of_python() -> None:
    tree = ast.parse(Path(decisions.__file__).read_text(encoding="utf-8"))
    [body] = [
        node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Reason"
    ]
    texts = {}
    for statement, text in itertools.pairwise(body):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            if not (isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)):
                continue  # no value, but a method
            texts[statement.targets[0].id.lower()] = str(text.value.value)
    del texts["unspecified"]
    assert words(texts) == GRANTS


def test_java() -> None:
    text = Path("client/java/src/main/java/io/queuegate/Reason.java").read_text()
    rows = re.findall(r"/\*\* (\w+)[^/]*\*/\s+([A-Z_]+)\((true|false)\)", text)
    granted = {name.lower(): grants == "true" for _, name, grants in rows if name != "UNSPECIFIED"}
    assert granted == GRANTS
    assert words({name.lower(): text for text, name, _ in rows if name != "UNSPECIFIED"}) == GRANTS


def test_the_contract() -> None:
    content = files("queuegate.v1").joinpath("contract.binpb").read_bytes()
    [file] = [
        each
        for each in FileDescriptorSet.FromString(content).file
        if each.name == "queuegate/v1/access.proto"
    ]
    [place] = [place for place, enum in enumerate(file.enum_type) if enum.name == "Reason"]
    comments = {
        tuple(each.path): each.leading_comments.strip() for each in file.source_code_info.location
    }
    texts = {
        value.name.removeprefix("REASON_").lower(): comments[5, place, 2, number]
        for number, value in enumerate(file.enum_type[place].value)
        if value.number
    }
    assert words(texts) == GRANTS


def test_the_constants_of_go() -> None:
    source = (GO / "reason.go").read_text(encoding="utf-8")
    found = re.findall(
        r"// (Reason\w+): (.*)\n(?:\t// .*\n)*\t(Reason\w+) Reason = \"(\w+)\"", source
    )
    assert all(commented == name for commented, _, name, _ in found)
    assert words({value: text for _, text, _, value in found}) == GRANTS
    values = {name: value for _, _, name, value in found}
    table = dict(re.findall(r"^\t(Reason\w+): +(true|false),$", source, re.MULTILINE))
    assert {values[name]: grants == "true" for name, grants in table.items()} == GRANTS
    gate = (GO / "internal/policy/decision.go").read_text(encoding="utf-8")
    of_queues = set(re.findall(r"^\t\w+ +Reason = \"(\w+)\"", gate, re.MULTILINE))
    # A gate does not decide about applications.
    assert of_queues == set(GRANTS) - {"owner", "unknown_queue"}


def test_the_page_about_decisions() -> None:
    page = Path("docs/explanation/decisions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`REASON_\w+`(?:, `REASON_\w+`)*) \| (.*) \|$", page, re.MULTILINE)
    texts = {
        name.lower(): text for names, text in rows for name in re.findall(r"REASON_(\w+)", names)
    }
    assert words(texts) == GRANTS


def test_the_numbers_of_the_contract() -> None:
    names = {
        number: name.removeprefix("REASON_").lower()
        for name, number in access_pb2.Reason.items()
        if number
    }
    assert {number: str(reason) for reason, number in messages.REASONS.items()} == names
    reasons = messages.REASON_OF
    assert {names[number]: OUTCOMES[reasons[number]].grants for number in reasons} == GRANTS


def test_metrics_and_columns() -> None:
    log = DecisionLog()
    assert {reason: outcome == "allowed" for outcome, reason, _ in log.tallied()} == GRANTS
    for reason, number in NUMBERS.items():
        assert GRANTS_BY_NUMBER[number] is OUTCOMES[reason].grants
        answered = [CachedResponse(b"", b"", number)]
        granted = columns.response(answered, bytes([number]), 1).allowed
        assert bool(granted[0]) is OUTCOMES[reason].grants, reason


@pytest.mark.parametrize("reason", OUTCOMES)
def test_denials_are_due_in_the_audit_log(reason: Reason) -> None:
    log = DecisionLog(cast("Any", object()), allowed=False)
    assert log.due(bytes([NUMBERS[reason]])) == (not OUTCOMES[reason].grants)


@pytest.mark.parametrize("reason", Reason)
def test_words_for_people(reason: Reason) -> None:
    """Every reason has words, also for an application, and they fit into a sentence."""
    outcome = OUTCOMES.get(reason)
    allowed = outcome is not None and outcome.grants
    answer = Decision(allowed, reason, "root.a" if allowed else "", "s" if allowed else "", 1)
    plain = Colors(on=False)
    asked = ApplicationCheck("bob", "view", Application("root.a", "ann"))
    for text in (
        render.decision_text(Check("bob", "root.a"), answer, plain),
        render.application_decision_text(asked, answer, plain),
    ):
        assert text.startswith("allowed: bob may " if allowed else "denied: bob may not ")
        assert text.rpartition(": ")[2]


def test_an_explanation_shows_each_grant_of_an_acl() -> None:
    """Every reason that grants is that of an ACL, or there is no ACL to show."""
    granting = {reason for reason, outcome in OUTCOMES.items() if outcome.grants}
    assert set(GRANTED) == granting - {Reason.ACLS_DISABLED, Reason.OWNER}


def test_decisions_without_an_acl() -> None:
    for each in vars(decisions).values():
        if isinstance(each, decisions.Decision):
            assert each.allowed is OUTCOMES[each.reason].grants, each
