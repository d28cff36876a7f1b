"""Reviews of objects that name queues, decided by a real engine."""

import asyncio
import json
from typing import Any

import pytest

from queuegate.policy.acl import AclNames
from queuegate_server.admission.queues.review_decider import CannotDecide
from queuegate_server.admission.queues.usable_queues import MAX_COUNTED
from queuegate_server.admission.server.review import ALLOWED, write_review
from queuegate_server.admission.server.webhook_limits import MAX_OBJECT_ENTRIES
from tests.support.fakes.loop import run_ready_callbacks
from tests.support.queue_reviews import PLACE, Reviewing, snapshot
from tests.support.rows import rows, table

pytestmark = pytest.mark.usefixtures("no_task_left")

KUBERNETES: dict[str, Any] = {"groups": "kubernetes"}
BOTH: dict[str, Any] = {"groups": "both"}
DOWN = "resolver 'test' is unavailable"

POD = ("", "Pod")
SEPARATE: dict[str, Any] = {
    "yunikorn": {},
    "kueue": {},
    "kai": {"below": "root.kai"},
    "volcano": {"below": "root.volcano"},
}
FOREST = table(__file__, "FOREST")


@rows
async def test_groups_come_from_the_configured_source(
    user: str, groups: list[str], queue: str, settings: dict[str, Any], *, allowed: bool
) -> None:
    reviewing = Reviewing(**settings)
    response = await reviewing.review(user, queue, groups=groups)
    assert response.allowed is allowed
    assert bool(response.message) is not allowed


async def test_a_denial_says_why_and_what_to_use_instead() -> None:
    response = await Reviewing().review("alice", "root.prod")
    assert response.message == (
        f'alice may not submit to root.prod (set in metadata.labels["{PLACE}"]): access depends on'
        " groups, and the directory does not know alice. Queues you may use: root.dev, root.open."
        " To see why: queuegate explain alice root.prod"
    )


async def test_all_names_must_be_allowed() -> None:
    reviewing = Reviewing()
    queues = ("root.open", "root.prod", "root.dev", "root.prod.night")
    response = await reviewing.review("dave", *queues)
    first, *rest = response.message.split(". ")
    assert first.startswith("dave may not submit to root.prod")
    assert rest[0] == "2 more queues are denied"
    assert (await reviewing.review("bob", *queues[:2])).allowed
    assert reviewing.directory.asked == {"dave": 1, "bob": 1}


async def test_few_usable_queues_are_listed_and_the_others_counted() -> None:
    tree = {"root": "", "root.none": "eve"}
    tree |= {f"root.q{number}": "alice" for number in range(7)}
    response = await Reviewing(tree).review("alice", "root.none")
    assert "root.q0, root.q1, root.q2, root.q3, root.q4 (2 more). To" in response.message
    tree |= {f"root.p{number}": "alice" for number in range(MAX_COUNTED)}
    response = await Reviewing(tree).review("alice", "root.none")
    assert f"(at least {MAX_COUNTED - 5} more). To" in response.message


async def test_usable_queues_follow_the_policy() -> None:
    reviewing = Reviewing({"root": "", "root.a": "eve", "root.b": "alice"})
    before = await reviewing.review("alice", "root.a")
    reviewing.engine.serve(
        snapshot({"root": "", "root.a": "eve", "root.c": "alice"}, reviewing.directory)
    )
    after = await reviewing.review("alice", "root.a")
    assert "Queues you may use: root.b. " in before.message
    assert "Queues you may use: root.c. " in after.message


@rows
async def test_usable_queues_are_those_of_the_place(
    kind: tuple[str, str], value: dict[str, Any], path: str, use: str
) -> None:
    reviewing = Reviewing(FOREST, schedulers=SEPARATE, **KUBERNETES)
    response = await reviewing.review("alice", object=value, kind=kind)
    assert f"{path} (set in " in response.message
    found = response.message.partition("Queues you may use: ")[2].partition(". To see")[0]
    assert found == use


@pytest.mark.parametrize(
    ("schedulers", "use"),
    [({"kai": {"below": "root.kai"}}, "night.ly"), ({"yunikorn": {}, "kueue": {}}, "")],
)
async def test_usable_queues_of_an_object_without_a_queue(
    schedulers: dict[str, Any], use: str
) -> None:
    """Only if one scheduler is listed is it clear which names help."""
    reviewing = Reviewing(FOREST, schedulers=schedulers, unqueued="root.closed", **KUBERNETES)
    response = await reviewing.review("alice", object={"metadata": {}}, kind=POD)
    assert "root.closed (the queue of objects that name none)" in response.message
    assert response.message.partition("you may use: ")[2].partition(". To see")[0] == use


async def test_strangers_see_no_usable_queues() -> None:
    response = await Reviewing().review("alice", "root.prod", verified=False)
    assert not response.allowed
    assert "root.open" not in response.message


@rows
async def test_who_is_checked(settings: dict[str, Any], user: str, *, checked: bool) -> None:
    reviewing = Reviewing(**settings)
    response = await reviewing.review(user, "root.dev")
    assert (response != ALLOWED) is checked
    assert bool(reviewing.audit.records) is checked


async def test_warn_mode_allows_with_a_warning_for_each_name() -> None:
    reviewing = Reviewing(mode="warn")
    response = await reviewing.review("dave", "root.dev", "root.open", "root.prod", "not a path")
    assert response.allowed
    assert not response.message
    texts = sorted(warning.partition(":")[0] for warning in response.warnings)
    label = 'metadata.labels["example.com/queue"]'
    assert texts == [
        f"dave may not submit to root.dev (set in {label})",
        f"dave may not submit to root.prod (set in spec[1].{label})",
        f"spec[2].{label}",
    ]
    assert reviewing.counted() == {
        ("places", "denied", "warn"): 2,
        ("places", "allowed", "warn"): 1,
        ("places", "refused", "warn"): 1,
    }


async def test_each_place_has_its_mode() -> None:
    places = [{"label": PLACE, "mode": "warn"}, {"label": "example.com/second"}]
    reviewing = Reviewing(schedulers={"places": places})
    response = await reviewing.review("eve", "root.dev")
    assert (response.allowed, len(response.warnings)) == (True, 1)
    new = {"metadata": {"labels": {PLACE: "root.dev", "example.com/second": "root.prod"}}}
    response = await reviewing.review("eve", object=new)
    assert response.message.startswith("eve may not submit to root.prod")


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_dry_run_gets_the_same_answer(*, dry_run: bool) -> None:
    reviewing = Reviewing()
    response = await reviewing.review("eve", "root.dev", dryRun=dry_run)
    assert response == await Reviewing().review("eve", "root.dev")
    assert reviewing.audit.records[0].get("dry_run", False) is dry_run


async def test_records_name_the_object() -> None:
    reviewing = Reviewing()
    await reviewing.review("alice", "root.dev", "not a path", verified=False)
    common = {
        "time": "1970-01-01T00:00:00.000000Z",
        "caller": "webhook",
        "method": "AdmissionReview",
        "user": "alice",
        "partition": "default",
        "object_kind": "Run.example.com",
        "object_namespace": "team",
        "object_name": "run-1",
        "unverified": True,
        "scheduler": "places[0]",
        "mode": "deny",
    }
    assert reviewing.audit.records == [
        common
        | {"queue": "root.dev", "access": "submit", "decision": "allowed", "reason": "user"}
        | {"matched_queue": "root.dev", "matched_name": "alice", "revision": 7},
        common | {"queue": "", "decision": "error", "reason": "invalid_field"},
    ]


async def test_an_answer_without_its_record_is_withheld() -> None:
    reviewing = Reviewing()
    reviewing.audit.has_room = False
    for user in ("alice", "eve"):
        with pytest.raises(CannotDecide, match="cannot be written to the audit log"):
            await reviewing.review(user, "root.dev")
    assert not reviewing.counted()


async def test_an_outage_of_the_directory_is_never_a_grant() -> None:
    reviewing = Reviewing()
    reviewing.directory.broken = True
    with pytest.raises(CannotDecide, match=DOWN):
        await reviewing.review("bob", "root.prod")
    assert reviewing.audit.records[0]["reason"] == "resolver_unavailable"
    assert reviewing.counted() == {("places", "error", "deny"): 1}
    assert (await reviewing.review("bob", "root.open")).allowed
    assert (await reviewing.review("alice", "root.dev")).allowed
    with pytest.raises(CannotDecide, match=DOWN):
        await reviewing.review("bob", "root.open", "root.prod", "root.prod.night")


async def test_an_outage_is_an_error_with_both_sources() -> None:
    reviewing = Reviewing(**BOTH)
    reviewing.directory.broken = True
    with pytest.raises(CannotDecide, match=DOWN):
        await reviewing.review("bob", "root.prod", groups=["other"])
    assert (await reviewing.review("eve", "root.prod", groups=["staff"])).allowed


async def test_an_outage_is_a_warning_in_warn_mode() -> None:
    """Another scheduler's mode may be deny, so that an error would refuse the object."""
    reviewing = Reviewing(mode="warn")
    reviewing.directory.broken = True
    response = await reviewing.review("bob", "root.prod", groups=["other"])
    assert response.allowed
    (warning,) = response.warnings
    assert warning.startswith("the queue cannot be checked: ")
    assert DOWN in warning
    assert reviewing.counted() == {("places", "error", "warn"): 1}


async def test_groups_of_the_request_need_no_directory() -> None:
    reviewing = Reviewing(**KUBERNETES)
    reviewing.directory.broken = True
    assert not (await reviewing.review("bob", "root.prod", groups=["other"])).allowed
    assert not reviewing.directory.asked


async def test_a_denial_needs_no_answer_about_other_queues() -> None:
    tree = {"root": "", "root.closed": "", "root.prod": " staff"}
    reviewing = Reviewing(tree)
    reviewing.directory.broken = True
    response = await reviewing.review("bob", "root.prod", "root.closed")
    assert response.message.startswith("bob may not submit to root.closed")
    outcomes = {record["queue"]: record["decision"] for record in reviewing.audit.records}
    assert outcomes == {"root.prod": "error", "root.closed": "denied"}


async def test_a_refusal_needs_no_answer_about_queues() -> None:
    reviewing = Reviewing()
    reviewing.directory.broken = True
    response = await reviewing.review("bob", "root.prod", "not a path")
    assert response.message.startswith('spec[0].metadata.labels["example.com/queue"]: ')
    assert reviewing.counted() == {
        ("places", "error", "deny"): 1,
        ("places", "refused", "deny"): 1,
    }


async def test_a_slow_directory_is_an_error_at_the_deadline() -> None:
    reviewing = Reviewing()
    reviewing.directory.hold.clear()
    with pytest.raises(CannotDecide, match="did not answer in time"):
        await reviewing.review("bob", "root.prod", "root.prod.night", seconds=0.01)
    assert [record["reason"] for record in reviewing.audit.records] == ["deadline_exceeded"] * 2
    reviewing.directory.hold.set()
    await run_ready_callbacks()


async def test_the_shortest_warnings_come_first() -> None:
    """Only the first few are sent, and long ones may be truncated."""
    reviewing = Reviewing(mode="warn")
    response = await reviewing.review(
        "eve", *(f"root.dev.{'q' * size}" for size in range(9, 1, -1))
    )
    lengths = list(map(len, response.warnings))
    assert lengths == sorted(lengths)
    assert len(lengths) == 8
    written = json.loads(write_review("u", response))["response"]["warnings"]
    assert written == [*response.warnings[:5], "and 3 more warnings"]


@rows
async def test_an_object_of_too_many_entries_gets_an_answer(
    settings: dict[str, Any], message: str, warnings: tuple[str, ...]
) -> None:
    reviewing = Reviewing(**settings)
    response = await reviewing.review("bob", object={"spec": [0] * MAX_OBJECT_ENTRIES})
    assert (response.allowed, response.message) == (not message, message)
    assert response.warnings == warnings
    mode = "deny" if message else "warn"
    assert reviewing.counted() == ({("any", "refused", mode): 1} if message or warnings else {})


@pytest.mark.parametrize(
    ("user", "names", "settings", "message"),
    [
        ("x" * 1_025, AclNames.ANY, {}, "the user name has more than 1024 bytes$"),
        ("é" * 513, AclNames.ANY, {}, "the user name has more than 1024 bytes$"),
        ("e\nve", AclNames.ANY, {}, "the user name has a control character$"),
        ("oidc|eve", AclNames.EXTENDED, KUBERNETES, "acl_names to any"),
        ("oidc|eve", AclNames.EXTENDED, BOTH, "acl_names to any"),
    ],
)
async def test_users_that_cannot_be_decided_about(
    user: str, names: AclNames, settings: dict[str, Any], message: str
) -> None:
    reviewing = Reviewing(names=names, **settings)
    with pytest.raises(CannotDecide, match=message):
        await reviewing.review(user, "root.open")
    assert reviewing.audit.records[0]["reason"] == "invalid_field"


@pytest.mark.parametrize("user", ["é" * 512, "system:serviceaccount:team:runner", "a b"])
async def test_unusual_users_are_decided_about(user: str) -> None:
    assert (await Reviewing().review(user, "root.open")).allowed


async def test_without_a_policy_nothing_is_allowed() -> None:
    reviewing = Reviewing(partition="other")
    with pytest.raises(CannotDecide, match=r"admission.queues.partition: partition 'other'"):
        await reviewing.review("alice", "root.open")
    reviewing.engine.latest = None
    with pytest.raises(CannotDecide, match="no policy has been loaded"):
        await reviewing.review("alice", "root.open")


async def test_reviews_follow_the_policy() -> None:
    reviewing = Reviewing({"root": "", "root.a": "alice"})
    assert (await reviewing.review("alice", "root.a")).allowed
    reviewing.engine.serve(snapshot({"root": "", "root.a": "bob"}, reviewing.directory))
    assert not (await reviewing.review("alice", "root.a")).allowed


async def test_a_policy_may_change_during_a_lookup() -> None:
    reviewing = Reviewing({"root": "", "root.a": " staff"})
    reviewing.directory.hold.clear()
    review = asyncio.create_task(reviewing.review("bob", "root.a"))
    await run_ready_callbacks()
    reviewing.engine.serve(snapshot({"root": ""}, reviewing.directory))
    reviewing.directory.hold.set()
    assert (await review).allowed
    assert reviewing.audit.records[0]["revision"] == 7
