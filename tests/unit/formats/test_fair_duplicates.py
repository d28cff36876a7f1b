"""Queues that a fair-scheduler.xml declares again, as Hadoop 3.4.1 reads them."""

import pytest

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate_server.formats.registry import check_file, load_policy
from queuegate_server.formats.yarn.convert import convert
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.yarn_files import CLOSED, FAIR

LEAF = '<queue name="c"><aclSubmitApps>carl</aclSubmitApps></queue>'
PARENT = '<queue name="c"><queue name="d"><aclSubmitApps>dora</aclSubmitApps></queue></queue>'
MARKED = '<queue name="c" type="parent"><aclSubmitApps>max</aclSubmitApps></queue>'
RESERVABLE = '<queue name="c"><aclSubmitApps>rita</aclSubmitApps><reservation/></queue>'
DEEP = '<queue name="c"><queue name="p"><queue name="d"/></queue><queue name="e"/></queue>'
PARENT_BELOW = '<queue name="c"><queue name="p" type="parent"/></queue>'


def fair(*queues: str) -> bytes:
    lines = "\n".join(queues)
    return f'<allocations><queue name="root">{CLOSED}\n{lines}</queue></allocations>'.encode()


@pytest.mark.parametrize(
    ("queues", "paths", "discarded"),
    [
        ((LEAF, PARENT), "c", "c.d"),
        ((PARENT, LEAF), "c", "c.d"),
        ((LEAF, PARENT, LEAF), "c", "c.d"),
        ((PARENT, LEAF, PARENT), "c", "c.d"),
        ((PARENT, MARKED, LEAF), "c", "c.d"),
        ((PARENT, RESERVABLE, LEAF), "c", "c.d"),
        ((LEAF, DEEP), "c c.p", "c.e c.p.d"),
        ((DEEP, LEAF), "c c.p", "c.e c.p.d"),
        ((LEAF, PARENT_BELOW), "c c.p", ""),
        ((LEAF, LEAF), "c", ""),
        ((LEAF, MARKED), "c", ""),
        ((MARKED, LEAF), "c", ""),
        ((LEAF, RESERVABLE), "c", ""),
        ((RESERVABLE, LEAF), "c", ""),
        ((PARENT, PARENT), "c c.d", ""),
        ((PARENT, MARKED), "c c.d", ""),
        ((MARKED, PARENT), "c c.d", ""),
        ((RESERVABLE, PARENT), "c c.d", ""),
    ],
)
@pytest.mark.parametrize("above", ["", "x"])
def test_only_queues_that_hadoop_certainly_creates(
    queues: tuple[str, ...], paths: str, discarded: str, above: str
) -> None:
    top = f"root.{above}." if above else "root."
    if above:
        queues = (f'<queue name="{above}">', *queues, "</queue>")
    loaded = load_policy(FAIR, fair(*queues), "f.xml")
    expected = {"root", *([top[:-1]] if above else ()), *(f"{top}{path}" for path in paths.split())}
    assert loaded.partitions["default"].queues.keys() == expected
    reported = {each.queue for each in loaded.diagnostics if "may discard" in each.message}
    assert reported == {f"{top}{path}" for path in discarded.split()}


@pytest.mark.parametrize("name", ["default", "c"])
def test_hadoop_never_replaces_queues_below_default(name: str) -> None:
    queues = [each.replace('"c"', f'"{name}"') for each in (LEAF, PARENT_BELOW)]
    queues_read = load_policy(FAIR, fair(*queues), "f.xml").partitions["default"].queues
    assert (f"root.{name}.p" in queues_read) is (name == "c")


@pytest.mark.parametrize("queues", [(LEAF, PARENT), (PARENT, LEAF)])
def test_a_discarded_queue_grants_nothing_and_is_reported(queues: tuple[str, ...]) -> None:
    data = fair(*queues)
    partition = load_policy(FAIR, data, "f.xml").partitions["default"]
    for user, allowed in (("dora", False), ("carl", True)):
        decision = decide(partition, "root.c.d", Access.SUBMIT, user, ())
        assert decision
        assert decision.allowed is allowed
    reason = '"root.c" is also declared as a leaf'
    leaf, parent = queues.index(LEAF) + 2, queues.index(PARENT) + 2
    found = check_file(FAIR, data, "f.xml", with_lint=True)
    assert {(each.line, each.queue, each.message, each.remedy) for each in found} == {
        (
            3,
            "root.c",
            'the queue "root.c" is already declared on line 2; their ACLs are merged',
            "declare it once",
        ),
        (
            parent,
            "root.c.d",
            (
                f"Hadoop may discard this queue because {reason}, on line {leaf}: the ACLs of this"
                " queue are ignored"
            ),
            "declare that queue once",
        ),
    }
    assert "parent: true" in convert(FAIR, data, "f.xml", YarnOptions()).text


@pytest.mark.parametrize("attributes", [' type="parent"', ""])
def test_a_reservable_parent_is_an_error(attributes: str) -> None:
    child = "" if attributes else '<queue name="d"/>'
    data = fair(f'<queue name="c"{attributes}><reservation/>{child}</queue>')
    [error] = check_file(FAIR, data, "f.xml", with_lint=True)
    assert error.message == "a parent queue has a <reservation>: Hadoop does not load such a file"
    assert (error.line, error.queue) == (2, "root.c")
    assert not load_policy(FAIR, data, "f.xml").partitions
