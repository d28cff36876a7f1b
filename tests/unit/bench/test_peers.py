"""Every server of the comparison gets equivalent input, by the plain rules."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from bench import charts, plots
from bench.peers import casbin, cerbos, opa, openfga
from bench.peers.generators import Measurement, percentile
from bench.peers.measure import MIDDLE, Result
from bench.peers.policy import Policy, decided_by, generate
from bench.peers.questions import MIX, Question, Questions
from bench.peers.report import markdown, targets
from bench.policies import to_yaml
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate_server.formats.registry import load_policy


@pytest.fixture(scope="module")
def policy() -> Policy:
    return generate()


@pytest.fixture(scope="module")
def asked(policy: Policy) -> list[Question]:
    return Questions(policy, 1).mixed(500)


def test_policy_is_as_large_as_said_and_the_same_every_time(policy: Policy) -> None:
    assert generate() == policy
    assert len(policy.queues) == 200
    assert max(queue.level for queue in policy.queues) == 5
    assert len(policy.members) == 2_000
    assert len({group for groups in policy.members.values() for group in groups}) == 300
    assert any(queue.open_to_all for queue in policy.queues)


def test_questions_differ_and_are_mixed_as_said(policy: Policy) -> None:
    questions = Questions(policy, 2)
    asked = [*questions.mixed(1_000), *questions.mixed(1_000)]
    assert len(set(asked)) == len(asked)
    assert sum(one.allowed for one in asked) == len(asked) / 2
    index = {queue.path: number for number, queue in enumerate(policy.queues)}
    kinds = Counter(
        decided_by(policy, one.user, index[one.queue], is_admin=one.is_admin) for one in asked
    )
    assert kinds == {kind: percent * 20 for kind, percent in MIX.items()}


def test_our_own_rules_answer_as_predicted(policy: Policy, asked: list[Question]) -> None:
    loaded = load_policy("yunikorn", to_yaml(policy.queues).encode(), "queues.yaml")
    assert loaded.diagnostics == ()
    for one in asked:
        access = Access.ADMIN if one.is_admin else Access.SUBMIT
        decision = decide(loaded.partitions["default"], one.queue, access, one.user, one.groups)
        assert decision is not None
        assert decision.allowed == one.allowed, one


def test_cerbos_policies_answer_as_predicted(policy: Policy, asked: list[Question]) -> None:
    rules = {
        content["resourcePolicy"]["scope"]: content["resourcePolicy"]["rules"]
        for content in cerbos.policies(policy)
    }
    assert len(rules) == len(policy.queues) + 1
    for one in asked:
        request = cerbos.question(one)
        scope = request["resources"][0]["resource"]["scope"]
        granted = False
        while scope and not granted:
            granted = any(_cerbos_grants(rule, request) for rule in rules[scope])
            scope = scope.rpartition(".")[0]
        assert granted == one.allowed, one


def _cerbos_grants(rule: dict[str, Any], request: dict[str, Any]) -> bool:
    principal = request["principal"]
    if request["resources"][0]["actions"][0] not in rule["actions"]:
        return False
    if rule["roles"] != ["*"] and not set(rule["roles"]) & set(principal["roles"]):
        return False
    if "condition" not in rule:
        return True
    listed = rule["condition"]["match"]["expr"].removeprefix("P.id in ")
    return principal["id"] in json.loads(listed)


def test_opa_data_answer_as_predicted(policy: Policy, asked: list[Question]) -> None:
    data = opa.data(policy)
    for one in asked:
        given = opa.question(one)
        granted = any(
            listed["everyone"]
            or given["user"] in listed["users"]
            or any(group in listed["groups"] for group in given["groups"])
            for path in data["queues"][given["queue"]]["line"]
            for listed in (data["queues"][path][name] for name in data["lists"][given["action"]])
        )
        assert granted == one.allowed, one


def test_openfga_tuples_answer_as_predicted(policy: Policy, asked: list[Question]) -> None:
    stored = openfga.tuples(policy)
    assert len(set(stored)) == len(stored)
    subjects: dict[tuple[str, str], set[str]] = {}
    for subject, relation, place in stored:
        subjects.setdefault((place, relation), set()).add(subject)
    for one in asked:
        user, relation, place = openfga.question(one)
        names = {user, "user:*"}
        names |= {f"{group}#member" for _, _, group in openfga.membership(one.user, one.groups)}
        relations = ["administrator"] + ["submitter"] * (relation == "can_submit")
        granted = False
        above: set[str] = {place}
        while above and not granted:
            place = above.pop()
            granted = any(names & subjects.get((place, each), set()) for each in relations)
            above = set(subjects.get((place, "parent"), ()))
        assert granted == one.allowed, one


def test_casbin_lines_answer_as_predicted(policy: Policy, asked: list[Question]) -> None:
    lines = casbin.lines(policy)
    parents = {line[1]: line[2] for line in lines if line[0] == "g2"}
    roles: dict[str, set[str]] = {}
    rules: dict[str, set[tuple[str, ...]]] = {}
    for kind, *rest in lines:
        if kind == "g":
            roles.setdefault(rest[0], {rest[0], "*"}).add(rest[1])
        elif kind == "p":
            rules.setdefault(rest[1], set()).add((rest[0], rest[2]))
    for one in asked:
        user, queue, action = casbin.question(one)
        line = [queue]
        while line[-1] in parents:
            line.append(parents[line[-1]])
        granted = any(
            subject in roles[user] and allowed in (action, "admin")
            for place in line
            for subject, allowed in rules[place]
        )
        assert granted == one.allowed, one


@pytest.mark.parametrize(
    ("values", "part", "found"),
    [
        ([5.0], 0.5, 5.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0),
        ([1.0, 2.0, 3.0, 4.0], 0.51, 3.0),
        ([float(number) for number in range(1, 1001)], 0.999, 999.0),
        ([float(number) for number in range(1, 101)], 0.999, 100.0),
    ],
)
def test_percentile_is_a_value_that_was_seen(
    values: Sequence[float], part: float, found: float
) -> None:
    assert percentile(values, part) == found


def test_charts_hold_every_server_and_no_markup_from_names() -> None:
    values = [
        charts.Row("a<b", {charts.OURS: charts.Spread(3.0, 2.0, 4.0)}),
        charts.Row("c", {charts.OTHER: charts.Spread(900.0, 900.0, 900.0)}),
    ]
    for log in (True, False):
        drawing = charts.rows("t", "u", values, log=log)
        assert "a&lt;b" in drawing
        assert "a<b" not in drawing
        assert ">900<" in drawing


@pytest.mark.parametrize(
    ("values", "log", "ticks"),
    [
        ([0.3, 7.0], False, [0, 2, 4, 6, 8]),
        ([27.0, 5_714.0], True, [20, 100, 1_000, 10_000]),
        ([3.0, 40.0], True, [2, 5, 10, 20, 50]),
    ],
)
def test_an_axis_starts_where_its_values_do(
    values: list[float], log: bool, ticks: list[float]
) -> None:
    axis = charts.Axis(values, 0, 100, log=log)
    assert list(axis.ticks) == ticks
    assert axis.place(ticks[0]) == 0
    assert axis.place(ticks[-1]) == pytest.approx(100)


def seen(per_second: float) -> Measurement:
    return Measurement(1_000, per_second, p50=0.5, p99=2.0, p999=3.0, cpu_seconds=0.1)


def measured(name: str, *per_second: float, new: float = 0) -> Result:
    result = Result(name, "a policy", start_seconds=[1.0])
    result.closed[MIDDLE] = [seen(each) for each in per_second]
    result.repeated = [seen(2 * each) for each in per_second]
    result.new = [seen(new) for _ in per_second if new]
    return result


def test_goals_are_medians_of_the_ratios_of_rounds_and_say_what_the_memo_is_worth() -> None:
    native = measured("queuegate, native", 100, 80, 10, new=60)
    native.opened["50%"] = [(25.0, seen(25))]
    cerbos = measured("Cerbos", 10, 10, 10)
    slower = measured("queuegate, grpcio", 9, 9, 20)
    found = targets([native, slower, cerbos, Result("OPA, REST", "", error="no such module")])
    assert [(each.what, each.reached, each.is_met) for each in found] == [
        ("calls/s: queuegate, native to Cerbos", "8.00 (ghz), 8.00 (h2load)", True),
        ("calls/s: queuegate, native to Cerbos, never asked before", "6.00 (ghz)", True),
        ("calls/s: queuegate, grpcio to Cerbos", "0.90 (ghz), 0.90 (h2load)", False),
        (
            "calls/s asked before to never asked before: queuegate, native",
            "1.33 (ghz)",
            False,
        ),
        ("p99 at half of the peak: queuegate, native", "2.00 ms", True),
    ]


def test_a_server_that_could_not_be_measured_is_shown_with_its_error() -> None:
    absent = Result("OPA, REST", "as data", error="`go install` failed: 403")
    text = markdown([measured("queuegate, native", 50), absent], [("machine", "2 cores")])
    assert "| OPA, REST | - | as data | `go install` failed: 403 |" in text
    assert text.count("OPA, REST") == 1


def test_figures_of_another_processor_stay_until_that_processor_is_measured_again() -> None:
    def report(machine: str, commit: str, per_second: float, previous: str) -> str:
        facts = [("machine", f"{machine}, 2 cores"), ("commit", commit)]
        return markdown([measured("queuegate, native", per_second)], facts, previous)

    first = report("Intel(R) Xeon(R)", "aaaaaaaaaaaa", 111, "")
    assert "another processor" not in first
    second = report("AMD EPYC", "bbbbbbbbbbbb", 222, first)
    third = report("AMD EPYC", "cccccccccccc", 333, second)
    for text, rate in ((second, "222"), (third, "333")):
        own, _, other = text.partition("## On another processor")
        assert rate in own
        assert "111" not in own
        assert "earlier run: Intel(R) Xeon(R), commit aaaaaaaaaaaa.\n\n| server |" in other
        assert "| queuegate, native | 111 |" in other
    back = report("Intel(R) Xeon(R)", "dddddddddddd", 444, third)
    own, _, other = back.partition("## On another processor")
    assert "444" in own
    assert "AMD EPYC, commit cccccccccccc." in other
    assert "111" not in back


def test_charts_show_both_processors() -> None:
    facts = [("machine", "Intel(R) Xeon(R) Processor, 2 cores"), ("commit", "aaaaaaaaaaaa")]
    servers = [measured("queuegate, native", 50), measured("Cerbos", 10)]
    alone = markdown(servers, facts)
    both = markdown(servers[:1], [("machine", "AMD EPYC, 2 cores"), ("commit", "b" * 12)], alone)
    assert "Intel" not in plots.throughput(alone)
    assert "Intel Xeon (aaaaaaa)<" in plots.throughput(both)
    assert "AMD EPYC (bbbbbbb)<" in plots.throughput(both)
