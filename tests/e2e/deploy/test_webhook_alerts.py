"""The alerts about queues, evaluated by Prometheus's own code on what a real webhook exports."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.admission_reviews import admission_review
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.go_toolchain import BUILD_SECONDS
from tests.support.servers.two_partitions import POLICY
from tests.support.servers.webhook import Webhook, running_webhook

RULES = Path("deploy/helm/queuegate/alerts.yml").resolve()
METRIC = "queuegate_admission_queue_decisions_total"
ALERTS = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
    if METRIC in rule["expr"]
}
LABEL = "example.com/queue"
DAY = 1_440
BURST = 60
"""Minutes: a day without denials, then an hour with them."""


def review(user: str, *, label: str = "", queue: str = "") -> dict[str, Any]:
    """Return a review of a Volcano Job that names a queue in a label or in its field."""
    labels = {LABEL: label} if label else {}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": labels},
        "spec": {"queue": queue} if queue else {},
    }
    return admission_review(user, job, groups=[])


def post(webhook: Webhook, body: dict[str, Any]) -> int:
    headers = {"Content-Type": "application/json"}
    return webhook.http.post("/queues", content=json.dumps(body), headers=headers).status_code


@pytest.fixture(scope="module")
def scrape(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a webhook exports after decisions with each outcome, in both modes."""
    folder = tmp_path_factory.mktemp("webhook")
    (folder / "queues.yaml").write_text(POLICY)
    directory = ScriptedDirectory(folder)
    directory.answer({"sam": {"groups": ["staff"]}, "lost": {"failed": "down"}})
    schedulers = {"places": [{"label": LABEL}], "volcano": {"mode": "warn"}}
    settings = {
        "policy": {"path": str(folder / "queues.yaml")},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp"}, "other": {"resolver": "corp"}},
        "admission": {"queues": {"mode": "deny", "schedulers": schedulers}},
    }
    arguments = ("--config", settings_file(folder, settings))
    with running_webhook(folder, *arguments, environment=directory.environment) as webhook:
        for user in ("sam", "eve"):
            assert post(webhook, review(user, label="root.work")) == 200
            assert post(webhook, review(user, queue="work")) == 200
        assert post(webhook, review("sam", label="root..work")) == 200
        assert post(webhook, review("lost", label="root.work")) == 500
        return webhook.plain.get("/metrics").text


def series(scrape: str) -> dict[str, dict[str, str]]:
    """Return the labels of each series of the metric."""
    return {
        found[0]: dict(re.findall(r'(\w+)="([^"]*)"', found[0]))
        for found in re.findall(rf"^({METRIC}\{{[^}}]*\}}) (\S+)$", scrape, re.MULTILINE)
    }


def inputs(scrape: str) -> Iterator[dict[str, str]]:
    """Yield series with the labels of the scrape: names are always allowed, and denied of late."""
    for text, labels in series(scrape).items():
        values = f"0+10x{DAY + BURST}"
        if labels["outcome"] != "allowed":
            values = f"0x{DAY} 10+10x{BURST}"
        yield {"series": text.replace("{", '{job="queuegate-admission",'), "values": values}


def test_every_outcome_is_exported(scrape: str) -> None:
    found = [(each["scheduler"], each["outcome"], each["mode"]) for each in series(scrape).values()]
    assert sorted(found) == [
        ("places", "allowed", "deny"),
        ("places", "denied", "deny"),
        ("places", "error", "deny"),
        ("places", "refused", "deny"),
        ("volcano", "allowed", "warn"),
        ("volcano", "denied", "warn"),
    ]


@pytest.mark.timeout(BUILD_SECONDS)
def test_the_alerts_match_what_a_webhook_exports(
    scrape: str, promtool: Path, tmp_path: Path
) -> None:
    """Each alert is silent before the denials and errors begin, and fires afterwards."""
    assert ALERTS.keys() == {
        "QueuegateQueueChecksFail",
        "QueuegateQueueDenialsJump",
        "QueuegateQueueWarningsRise",
    }
    expected: list[dict[str, Any]] = []
    for name, expression in ALERTS.items():
        by = 'scheduler="places"' if name == "QueuegateQueueDenialsJump" else 'scheduler="volcano"'
        labels = "{}" if name == "QueuegateQueueChecksFail" else f"{{{by}}}"
        grouped = f"count without (job) ({expression})"
        expected += (
            {"expr": grouped, "eval_time": f"{DAY - 1}m", "exp_samples": []},
            {
                "expr": grouped,
                "eval_time": f"{DAY + 45}m",
                "exp_samples": [{"labels": labels, "value": 1}],
            },
        )
    test = {"interval": "1m", "input_series": [*inputs(scrape)], "promql_expr_test": expected}
    file = tmp_path / "test.yml"
    content = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}
    file.write_text(yaml.safe_dump(content))
    done = subprocess.run(
        [str(promtool), "test", "rules", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(BUILD_SECONDS)
def test_promtool_accepts_the_scrape(scrape: str, promtool: Path) -> None:
    done = subprocess.run(
        [str(promtool), "check", "metrics", "--extended"],
        input=scrape,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
