"""The alert rules and the dashboard: well-formed, about metrics that exist, explained."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from queuegate_server.identity.resolvers.entra import tenant
from queuegate_server.identity.resolvers.keycloak import realm
from queuegate_server.identity.resolvers.ldap import dirsync_follower
from queuegate_server.identity.resolvers.okta import organization
from tests.support.go_toolchain import BUILD_SECONDS, PROMTOOL
from tests.support.rows import rows

REFERENCE = Path("docs/reference/metrics.md").read_text(encoding="utf-8")
RUNBOOK = Path("docs/runbook")
STEPS = {"user search", "group search"}
"""Of `source-check`, which the server builds from two words."""
MKDOCS = Path("mkdocs.yml").read_text(encoding="utf-8")
RULES = Path("deploy/helm/queuegate/alerts.yml")
GROUPS = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
ALERTS: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
BOARD = json.loads(Path("deploy/monitoring/dashboard.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
METRICS = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", REFERENCE, re.MULTILINE))
LABELS = {
    name: set(re.findall(r"`(\w+)`", labels)) | {"job", "instance"}
    for name, labels in re.findall(r"^\| `(\w+)` \| \w+ \|([^|]*)\|", REFERENCE, re.MULTILINE)
}

KEYWORDS = {"by", "and", "or", "unless", "on", "ignoring", "group_left", "group_right", "without"}
FUNCTIONS = {
    "count", "histogram_quantile", "increase", "label_values", "max", "min", "rate", "sum", "time",
}  # fmt: skip
DURATION = r"\[(?:\d+[smh]|\$__rate_interval)\]"
SELECTOR = r"\{[^{}]*\}"
MATCHER = r'\w+(?:=|!=|=~|!~)"[^"]*"'


def metric_of(name: str) -> str:
    """Return the metric that a name of a series belongs to."""
    base = re.sub(r"_(bucket|count|sum)$", "", name)
    return base if METRICS.get(base) == "histogram" else name


def check(expression: str) -> set[str]:
    """Return the metrics of an expression; fail where it cannot be PromQL about ours."""
    used: set[str] = set()
    for name, selector in re.findall(rf"(\w+)({SELECTOR})", expression):
        matchers = selector[1:-1]
        assert re.fullmatch(rf"{MATCHER}(,{MATCHER})*", matchers), selector
        labels = set(re.findall(r"(\w+)(?:=|!)", re.sub(r'"[^"]*"', "", matchers)))
        assert labels <= LABELS.get(metric_of(name), {"job", "instance"}), (name, labels)
    for function, inner in re.findall(rf"\b(rate|increase)\((.*?{DURATION}|[^()]*)\)", expression):
        assert re.search(rf"{DURATION}$", inner.strip()), (function, inner)
        name = re.match(r"\w+", inner.strip())
        assert name
        assert METRICS[metric_of(name[0])] in {"counter", "histogram"}, name[0]
    rest = re.sub(rf"{SELECTOR}|{DURATION}", "", expression)
    for _ in range(rest.count("(")):
        rest, removed = re.subn(r"\b(?:by|without|on|ignoring) \([\w, ]*\)", "", rest)
        if not removed:
            break
    assert rest.count("(") == rest.count(")")
    assert not re.search(r"[\[\]{}\"]", rest), rest
    for name in re.findall(r"[A-Za-z_]\w*", rest):
        if name in KEYWORDS or name in FUNCTIONS:
            continue
        assert metric_of(name) in METRICS, name
        used.add(metric_of(name))
    depth = 0
    for character in rest:
        depth += {"(": 1, ")": -1}.get(character, 0)
        assert depth >= 0
    return used


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_alert(alert: dict[str, Any]) -> None:
    assert set(alert) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Queuegate[A-Za-z]+", alert["alert"])
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(alert["annotations"]) == {"summary", "runbook_url"}
    assert re.fullmatch(r"\d+[smh]", alert.get("for", "1m"))
    assert re.search(r"==|!=|>|<", re.sub(SELECTOR, "", alert["expr"]))
    if "up{" not in alert["expr"]:
        assert check(alert["expr"])


def page_of(alert: dict[str, Any]) -> Path:
    """Return the file that a link of an alert leads to, in the repository that mkdocs.yml names."""
    url: str = alert["annotations"]["runbook_url"]
    repository = re.search(r"^repo_url: (https://\S+)$", MKDOCS, re.MULTILINE)
    assert repository
    base = f"{repository[1]}/blob/main/"
    assert url.startswith(base)
    return Path(url.removeprefix(base))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_every_alert_has_a_page(alert: dict[str, Any]) -> None:
    page = page_of(alert)
    name = alert["alert"]
    words = re.findall("[A-Z][a-z]+", name)
    assert page == RUNBOOK / f"{'-'.join(words).lower()}.md"
    text = page.read_text(encoding="utf-8")
    way = "[How to reach a server and its log](index.md#how-to-reach-a-server)"
    assert text.startswith(f"# {name}\n\n*Severity: {alert['labels']['severity']}. {way}.*\n")
    assert re.findall("^## (.*)$", text, re.MULTILINE) == [
        "What it means",
        "What users notice",
        "How to see the cause",
        "What to do",
        "When it is over",
    ]


def test_the_list_of_alerts() -> None:
    text = (RUNBOOK / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\w+)\]\(([\w-]+\.md)\) \| (\w+) \|", text, re.MULTILINE) == [
        (each["alert"], Path(each["annotations"]["runbook_url"]).name, each["labels"]["severity"])
        for each in ALERTS
    ]
    pages = {path.name for path in RUNBOOK.iterdir()}
    assert len(pages) == len(ALERTS) + 1


def test_messages_in_the_runbook_are_those_of_the_server() -> None:
    quoted = {
        text
        for path in RUNBOOK.iterdir()
        for text in re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8"))
        if re.fullmatch(r"[a-z]+( [a-z-]+)+", text)
        and not text.startswith(("queuegate ", "kubectl ", "make ", "systemctl "))
        and " -" not in text
        and text not in STEPS
    }
    sources = "".join(path.read_text(encoding="utf-8") for path in Path("server").rglob("*.py"))
    # A message may be written in several adjacent strings.
    messages = re.sub(r'"\s+f?"', "", sources)
    assert len(quoted) > 10
    assert [text for text in sorted(quoted) if text not in messages] == []


def test_expressions_in_the_runbook() -> None:
    for path in RUNBOOK.iterdir():
        for text in re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8")):
            if re.match(r"(?:rate|sum|max|min|histogram_quantile)\b.*\(", text):
                assert check(text), (path, text)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_panel(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        assert check(target["expr"]), panel["title"]
        assert 'job=~"$job",instance=~"$instance"' in target["expr"]


def test_the_dashboard_as_a_whole() -> None:
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    for place in places:
        assert place["x"] + place["w"] <= 24
    for one in places:
        for other in places:
            apart = (
                one is other
                or one["x"] + one["w"] <= other["x"]
                or other["x"] + other["w"] <= one["x"]
                or one["y"] + one["h"] <= other["y"]
                or other["y"] + other["h"] <= one["y"]
            )
            assert apart, (one, other)
    shown = {
        name for panel in PANELS for target in panel["targets"] for name in check(target["expr"])
    }
    ours = {name for name in METRICS if name.startswith(("queuegate_", "grpc_"))}
    alerted = {
        name for alert in ALERTS if "up{" not in alert["expr"] for name in check(alert["expr"])
    }
    assert ours - shown - alerted == {"queuegate_policy_queues"} - alerted


@rows
def test_the_check_finds_mistakes(wrong: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check(wrong)


@pytest.mark.timeout(BUILD_SECONDS)
def test_promtool_agrees(promtool: Path, tmp_path: Path) -> None:
    """`check` above holds also where there is no Go to build promtool."""
    expressions = [target["expr"] for panel in PANELS for target in panel["targets"]]
    panels = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "5m")}
        for number, expression in enumerate(expressions)
    ]
    rules = tmp_path / "panels.yml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": panels}]}))
    run(promtool, "check", "rules", str(RULES), str(rules))


def test_a_source_that_is_asked_rarely_is_not_late() -> None:
    """Between two questions, the lag grows up to their interval."""
    [alert] = [each for each in ALERTS if each["alert"] == "QueuegateChangesNotFollowed"]
    late = re.search(r"queuegate_resolver_changes_lag_seconds > (\d+)", alert["expr"])
    assert late
    modules = (tenant, realm, organization, dirsync_follower)
    assert max(each.CHANGES_SECONDS for each in modules) <= int(late[1])


@pytest.mark.timeout(BUILD_SECONDS)
def test_alerts_fire_when_they_should(promtool: Path) -> None:
    run(promtool, "test", "rules", "tests/e2e/deploy/alerts_test.yml")


def run(promtool: Path, *arguments: str) -> None:
    done = subprocess.run(
        [str(promtool), *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pin_of_promtool() -> None:
    pinned = Path(PROMTOOL.pins, "go.mod").read_text(encoding="utf-8")
    assert f"{PROMTOOL.module} {PROMTOOL.version}" in pinned
