"""Plays the scenarios in YAML files: requests to a real API server, and what it answers.

A scenario has `name`, `steps`, and often `why`. A step is a request by bob, unless `as` names
somebody else, who may impersonate another one with `for`. The member with the verb has the path.
The request must succeed, unless the step has `refused`, a part of the message of the refusal
(which does not contain `without`), or `status`, the codes. `has` lists what the answer contains:
`at` are the members from the object to the value that it `is`.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.reviews import created, refusal

_VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_MERGE = "merge-patch+json"


def scenarios(file: str) -> pytest.MarkDecorator:
    """Run a test with the steps of each scenario in a file.

    Args:
        file: The name of a file in this folder.
    """
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    found = [each for each in yaml.safe_load(text) if "name" in each]
    return pytest.mark.parametrize("steps", [pytest.param(x["steps"], id=x["name"]) for x in found])


def play(cluster: ApiServer, steps: list[dict[str, Any]]) -> None:
    """Send the requests of a scenario, and compare the answers."""
    for step in steps:
        [verb] = [each for each in _VERBS if each in step]
        patch = step.get("patch", _MERGE)
        answer = cluster.ask(
            *(step.get("as", "bob"), verb, step[verb], step.get("body"), patch),
            impersonated=step.get("for", ""),
        )
        if "status" in step:
            assert answer.status_code in step["status"], (step, answer.text)
        elif "refused" in step:
            message = refusal(answer)
            assert step["refused"] in message, step
            assert "without" not in step or step["without"] not in message, step
        else:
            made = created(answer)
            for each in step.get("has", []):
                assert _at(made, each["at"]) == each["is"], step


def _at(value: Any, names: list[str]) -> Any:
    """Return a value within another one; None if it is missing."""
    for name in names:
        value = (value or {}).get(name)
    return value
