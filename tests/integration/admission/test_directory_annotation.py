"""The groups of a directory in the annotation user.info, as webhooks write and accept them."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from queuegate.user_info import ANNOTATION
from tests.support.admission_reviews import admission_review
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import settings_file
from tests.support.rows import table
from tests.support.servers.fleet import Fleet, running_fleet
from tests.support.servers.webhook import Webhook, patch_of, running_webhook

POLICY: str = table(__file__, "POLICY")
KUBERNETES = ("system:authenticated", "kube-dev", "2nd")
STAFF, OTHERS = {"groups": ["staff"]}, {"groups": ["others"]}


def review(user: str, annotation: str | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "train", "namespace": "team"}
    if annotation is not None:
        metadata["annotations"] = {ANNOTATION: annotation}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    return admission_review(user, pod, groups=KUBERNETES)


def written(webhook: Webhook, user: str = "sam") -> str:
    """Return the annotation that a webhook writes."""
    [operation] = patch_of(webhook.review("/mutate", review(user)))
    annotation: str = operation["value"][ANNOTATION]
    return annotation


def groups(webhook: Webhook, user: str = "sam") -> list[str]:
    found: list[str] = json.loads(written(webhook, user)).get("groups", [])
    return found


def refusal(webhook: Webhook, annotation: str, user: str = "sam") -> str:
    """Return the message of a webhook that refuses an annotation; empty if it accepts it."""
    answer = webhook.review("/validate", review(user, annotation))
    return "" if answer["allowed"] else answer["status"]["message"]


@contextmanager
def webhooks(
    folder: Path, *names: str, source: str = "directory"
) -> Iterator[tuple[Fleet, Sequence[Webhook]]]:
    """Run a server and webhooks that follow one fleet."""
    with running_fleet(folder, "server", policy=POLICY) as fleet, ExitStack() as stack:
        fleet.directory.reset({"sam": dict(STAFF)})
        running = []
        for name in names:
            own = folder / name
            own.mkdir()
            admission = {"user_info": {"groups": source}}
            config = settings_file(own, {**fleet.settings(name), "admission": admission})
            webhook = stack.enter_context(
                running_webhook(own, "--config", config, environment=fleet.directory.environment)
            )
            webhook.server.wait_for_log("following the fleet")
            running.append(webhook)
        count = len(names) + 1
        eventually(lambda: len(fleet.clients["server"].get_fleet().replicas), count)
        fleet.until_barriers_are_quick()
        yield fleet, running


def test_another_webhook_of_the_fleet_accepts_what_one_has_written(tmp_path: Path) -> None:
    with webhooks(tmp_path, "first", "second") as (fleet, (first, second)):
        annotation = written(first)
        assert annotation == '{"user":"sam","groups":["staff"]}'
        fleet.directory.answer({"sam": dict(OTHERS)})
        # The second webhook finds the groups of the first one in Redis, and asks nobody.
        assert refusal(second, annotation) == ""
        assert groups(second) == ["staff"]

        client = fleet.clients["server"]
        assert not client.invalidate(["sam"], wait=True).waited_out
        assert groups(second) == groups(first) == ["others"]
        # Both had the earlier groups within a lifetime of the cache.
        assert refusal(first, annotation) == refusal(second, annotation) == ""
        message = refusal(second, '{"user":"sam","groups":["leads"]}')
        assert "lists the group 'leads'" in message
        assert "others" not in message


def test_groups_that_no_webhook_of_the_fleet_knows_are_refused(tmp_path: Path) -> None:
    with webhooks(tmp_path, "first", "second") as (fleet, (first, second)):
        annotation = written(first)
        fleet.directory.answer({"sam": dict(OTHERS)})
        assert not fleet.clients["server"].invalidate(["sam"], wait=True).waited_out
        message = refusal(second, annotation)
        assert "lists the group 'staff'" in message
        assert refusal(first, annotation) == ""


def test_a_reload_covers_what_the_policy_can_use(tmp_path: Path) -> None:
    with webhooks(tmp_path, "first") as (fleet, (webhook,)):
        fleet.directory.answer({"ann": {"groups": ["leads", "analysts", "staff"]}})
        assert groups(webhook, "ann") == ["leads", "staff"]
        for name in ("server", "first"):
            fleet.policy(name).write_text(POLICY.replace("leads", "analysts"))
        assert not fleet.clients["server"].reload(wait=True).waited_out
        assert groups(webhook, "ann") == ["analysts", "staff"]


def test_both_sources_and_many_groups(tmp_path: Path) -> None:
    many = [f"group-{number}" for number in range(500)]
    with webhooks(tmp_path, "first", source="both") as (fleet, (webhook,)):
        fleet.directory.answer({"ann": {"groups": ["others", *many, "kube-dev", "staff"]}})
        annotation = written(webhook, "ann")
        assert annotation == '{"user":"ann","groups":["others","kube-dev","staff"]}'
        assert refusal(webhook, annotation, "ann") == ""
        assert groups(webhook) == ["staff", "kube-dev"]
        assert "lists the group 'system:" in refusal(
            webhook, '{"user":"sam","groups":["system:authenticated"]}'
        )
        # A user whom the directory does not know has the groups of the request.
        assert groups(webhook, "unknown") == ["kube-dev"]


def test_a_name_that_yunikorn_refuses_is_counted_and_logged_once(tmp_path: Path) -> None:
    with webhooks(tmp_path, "first") as (fleet, (webhook,)):
        fleet.directory.answer({"ann": {"groups": ["1st", "2nd", "staff"]}})
        for number in range(1, 3):
            annotation = written(webhook, "ann")
            assert annotation == '{"user":"ann","groups":["staff"]}'
            assert webhook.metric("queuegate_admission_groups_omitted_total") == number
        assert refusal(webhook, annotation, "ann") == ""
        assert webhook.metric("queuegate_admission_groups_omitted_total") == 2
        lines = [each for each in webhook.server.logs if "left out" in each["event"]]
        assert [each["group"] for each in lines] == ['"1st"']
