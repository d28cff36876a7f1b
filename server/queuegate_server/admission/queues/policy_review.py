"""Reviews a policy before the webhook uses it."""

from collections.abc import Iterator, Mapping
from typing import Final

from queuegate.policy.tree import Partition
from queuegate_server.admission.queues.reviewer import ambiguities, unknown_partition
from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, ParseError, quoted
from queuegate_server.formats.registry import YUNIKORN, format_of, open_policy
from queuegate_server.formats.yaml_reader import read_yaml
from queuegate_server.formats.yunikorn.load import normalized_name
from queuegate_server.formats.yunikorn.model import decode
from queuegate_server.policystore.parsing import ParseJob, PolicyText
from queuegate_server.settings.admission import Admission

MAX_READ_BYTES: Final = 256 * 1024
"""The maximum size of a text whose placement rules are read. Reading it blocks the event loop."""
_PROVIDED: Final = "provided"
_ELSEWHERE: Final = (
    "YuniKorn may place applications in other queues than those they name, which admission.queues"
    " checks"
)


def review_policy(
    admission: Admission, partitions: Mapping[str, Partition], texts: ParseJob | None
) -> list[Diagnostic]:
    """Return errors if queues cannot be checked with valid policies, and warnings about YuniKorn.

    Args:
        admission: The settings.
        partitions: The partitions of all policies.
        texts: The policies' texts; None if they are not available.
    """
    found: list[Diagnostic] = []
    if admission.authorize is not None:
        found += unknown_partition(admission.authorize, partitions)
    queues = admission.queues
    if queues is None:
        return found
    found += ambiguities(queues, partitions)
    if queues.schedulers.yunikorn is not None and texts is not None:
        for text in texts.texts:
            found += _placement_warnings(text, queues.partition)
    return found


def _placement_warnings(text: PolicyText, partition: str) -> Iterator[Diagnostic]:
    """Yield a warning if YuniKorn's first placement rule may ignore the queue named in an object.

    A filter passes some users' applications to the next rule. A parent adds levels to names that do
    not begin with `root.`.

    Without rules, YuniKorn uses the rule `provided` (`buildRules` in yunikorn-core's
    `pkg/scheduler/placement/placement.go`).
    """
    name, data = text.policy
    if len(data) > MAX_READ_BYTES:
        return
    try:
        opened = open_policy(data, name, text.options)
    except ParseError:
        return
    if (text.format or format_of(opened)) != YUNIKORN:
        return
    # Errors are discarded here, because the loader reports them.
    unwanted, diagnostics = Diagnostics(""), Diagnostics(opened.file)
    with unwanted:
        decoded = decode(read_yaml(opened.data, opened.file).root, unwanted)
    for each in decoded:
        if normalized_name(each) == partition and each.rules:
            rule = each.rules[0].name
            if rule.text.lower() != _PROVIDED:
                diagnostics.warning(
                    rule.position,
                    f"{_ELSEWHERE}: the first placement rule is {quoted(rule.text)}",
                    f"put the rule {_PROVIDED} first",
                )
            elif each.rules[0].filter is not None:
                diagnostics.warning(
                    rule.position,
                    f"{_ELSEWHERE}: the rule {_PROVIDED} has a filter, so that it does not place"
                    " the applications of all users",
                    "remove the filter",
                )
            elif each.rules[0].parent is not None:
                diagnostics.warning(
                    rule.position,
                    f"{_ELSEWHERE}: the rule {_PROVIDED} has a parent, below which it looks for"
                    " names that do not begin with root.",
                    "name queues by their full path, or remove the parent",
                )
    yield from opened.in_file(diagnostics.sorted())
