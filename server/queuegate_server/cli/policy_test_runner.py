"""Runs policy tests with the server's code."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from queuegate._types import Check, ExplainedGroups, GroupsOrigin
from queuegate.cli import render
from queuegate.cli.offline import OfflineClient, StaticDirectory
from queuegate.cli.suggestions import ambiguous_name, queue_hints
from queuegate.cli.terminal import Colors
from queuegate.exceptions import QueuegateError
from queuegate.policy.decision import Access
from queuegate.policy.names import partition_name
from queuegate_server.cli.command import Failure, read_or_fail
from queuegate_server.engine import Snapshot
from queuegate_server.formats.diagnostics import Diagnostic, has_errors, quoted
from queuegate_server.formats.findings.finding import Severity
from queuegate_server.formats.policy_tests import Expectation, load_tests
from queuegate_server.identity import resolver
from queuegate_server.identity.resolver_types import YARN_DEFAULT, YUNIKORN_DEFAULT
from queuegate_server.server.startup import CannotServe
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import Settings
from queuegate_server.settings.source_map import Override


@dataclass(frozen=True, slots=True)
class PolicyTestOutcome:
    """The result of a test."""

    file: str
    name: str
    line: int
    checks: int
    seconds: float
    failures: list[tuple[Diagnostic, list[str]]]
    """Failed expectations, each with the lines that explain the decision."""


def run_file(file: Path) -> tuple[list[PolicyTestOutcome], list[str]]:
    """Run the tests in a file. Return their outcomes, and notes for the user. Raises Failure."""
    data, name = read_or_fail(file)
    tests, diagnostics = load_tests(data, name)
    if has_errors(diagnostics):
        raise Failure.of("the tests are not valid:", diagnostics)
    options = []
    if tests.policy:
        path = str(file.parent / tests.policy)
        options = [Override(f"{name}: policy", ("policy", "path"), path)]
    config = file.parent / tests.config if tests.config else None

    def outcome_of(user: str) -> resolver.Outcome:
        if (groups := tests.users.get(user)) is None:
            return resolver.NoSuchUser("the user has no value in `users`")
        return resolver.KnownUser(groups)

    directory = StaticDirectory(outcome_of)
    try:
        settings = load_settings(config, options=options)
        client = OfflineClient(settings, lambda _: directory)
    except (SettingsError, CannotServe) as error:
        raise Failure.of(f"{name}: the policy cannot be loaded:", error.diagnostics) from None
    outcomes = []
    with client:
        without = dict(_without_resolver(settings, client.snapshot))
        for test in tests.tests:
            start = time.perf_counter()
            results = []
            for each in test.expectations:
                # Without a resolver to replace, the request must contain the groups.
                sent = tests.users if partition_name(each.partition) in without else {}
                results.append(_failure(client, name, each, sent.get(each.user) or None))
            seconds = time.perf_counter() - start
            failures = [failure for failure in results if failure]
            outcomes.append(
                PolicyTestOutcome(name, test.name, test.line, len(results), seconds, failures)
            )
    return outcomes, [*_notes(name, settings, without)]


_EVALUATED_QUEUE: Final = "evaluated_queue"
"""The key by which a test says that its queue need not exist, and which queue then decides."""
_GROUPS_WITHOUT_RESOLVER: Final = {
    YUNIKORN_DEFAULT: "one group, named after the user",
    YARN_DEFAULT: "no groups",
}


def _without_resolver(settings: Settings, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield each partition without a resolver, with a description of its users' default groups."""
    for name, served in snapshot.served.items():
        resolver = settings.partition(name).resolver
        kind = settings.resolvers[resolver].type if resolver else served.groups.resolver_name
        if (groups := _GROUPS_WITHOUT_RESOLVER.get(kind)) is not None:
            yield name, groups


def _notes(file: str, settings: Settings, without: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each partition without a resolver, stating the groups that a server uses."""
    for name, groups in without.items():
        condition = "without groups in the request, "
        if not settings.partition(name).trust_provided_groups:
            condition = "it ignores groups in requests (trust_provided_groups: false), and "
        yield (
            f"{file}: partition {quoted(name)} has no resolver: {condition}"
            f"a server gives each user {groups}"
        )


def _failure(
    client: OfflineClient, file: str, expected: Expectation, groups: tuple[str, ...] | None
) -> tuple[Diagnostic, list[str]] | None:
    """Return an error and lines that explain the decision; None if the decision is as expected."""
    shown: list[str] = []
    remedy = ""
    options: dict[str, Any] = {
        "partition": expected.partition,
        "access": Access(expected.access),
        "groups": groups,
        "real_user": expected.real_user,
    }
    try:
        decision = client.check(expected.user, expected.queue, **options)
        created = _created(client.snapshot, expected)
        evaluated = decision.evaluated_queue or created
        wanted = {"allowed": expected.allowed, **expected.more}
        found = {**{key: getattr(decision, key) for key in wanted}, _EVALUATED_QUEUE: evaluated}
        differences = [
            f"{key} is {_written(found[key])}, expected {_written(value)}"
            for key, value in wanted.items()
            if found[key] != value
        ]
        if evaluated and not expected.more.get(_EVALUATED_QUEUE):
            why = "YARN will create it" if created else f"{evaluated} decides instead"
            differences.append(f"the queue does not exist, and {why}")
            remedy = f"correct the queue, or add `{_EVALUATED_QUEUE}: {evaluated}` to the test"
        elif expected.more.get(_EVALUATED_QUEUE) and not evaluated:
            differences.append("the queue exists")
            remedy = f"remove {_EVALUATED_QUEUE}, which is for queues that do not exist"
        if shared := ambiguous_name(client, expected.queue, expected.partition):
            differences.append(shared)
        if differences:
            asked = Check(expected.user, expected.queue, **options)
            full = client.explain(expected.user, expected.queue, **options)
            full = replace(full, groups=_attribute_to_file(full.groups))
            missing = queue_hints(client, asked, decision.evaluated_queue)
            lines = render.explanation_lines(asked, full, Colors(on=False), missing)
            shown = "\n".join(lines).split("\n")
    except QueuegateError as error:
        differences = [f"{error.code}: {error.message}"]
        if partition_name(expected.partition) not in client.snapshot.served:
            remedy = "write `partition: NAME` in the test, with one of them"
        elif groups:
            differences.append("partition without a resolver: the request gives the groups")
    except ValueError as error:
        differences = [str(error)]
    if not differences:
        return None
    message = f"{expected.user} {expected.access} {expected.queue}: {'; '.join(differences)}"
    place = (file, expected.line, expected.column)
    failure = Diagnostic(*place, Severity.ERROR, message, remedy, finding="test-failed")
    return failure, shown


def _created(snapshot: Snapshot, expected: Expectation) -> str:
    """Return the path of the test's queue if only YARN will create it; otherwise "".

    Under Kubernetes RBAC, a queue that a grant names need not exist.
    """
    partition = snapshot.find(expected.partition).partition
    path = partition.canonical_path(expected.queue)
    is_new = path is not None and partition.named_grants is None and partition.creates(path)
    return path if path is not None and is_new else ""


def _attribute_to_file(groups: ExplainedGroups) -> ExplainedGroups:
    """Return the groups, attributed to the test file instead of a resolver or the cache."""
    if groups.origin is GroupsOrigin.NOT_NEEDED:
        return groups
    detail = groups.detail or "from the test file"
    return replace(groups, origin=GroupsOrigin.RESOLVER, resolver="", detail=detail)


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or "empty"
