"""Random documents: nothing makes the loader raise, and valid trees come back whole."""

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from queuegate.policy.acl import AclError, parse
from queuegate_server.formats.diagnostics import has_errors, sort_diagnostics
from queuegate_server.formats.registry import lint_policy, load_policy

_KEYS = """
    partitions name queues submitacl adminacl parent resources max guaranteed maxapplications
    properties childtemplate limits limit users groups maxresources placementrules create filter
    type value preemption enabled nodesortpolicy resourceweights usergroupresolver x
"""
KEYS = st.sampled_from(_KEYS.split())
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**65),
    st.floats(allow_nan=False),
    st.sampled_from(
        [
            *(
                "root",
                "ROOT",
                "a",
                "a b",
                "a  b",
                " a",
                "*",
                "a,b c",
                "a, b",
                "@recovery@",
                "",
                "1G",
            ),
            *("fixed", "user", "root.a", "dev.*", "(", "allow", "os", "a.b", "A", "a\tb", "fair"),
        ]
    ),
    st.text(max_size=4),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=25,
)
QUEUES: st.SearchStrategy[list[dict[str, Any]]] = st.deferred(
    lambda: st.lists(
        st.dictionaries(KEYS, LEAVES, max_size=4).flatmap(
            lambda queue: st.fixed_dictionaries(
                {**{key: st.just(value) for key, value in queue.items()}, "queues": QUEUES}
            )
        ),
        max_size=2,
    )
)
PARTITIONS = st.fixed_dictionaries(
    {
        "partitions": st.lists(
            st.dictionaries(KEYS, st.one_of(TREES, QUEUES), max_size=5), max_size=2
        )
    }
)


def check(data: bytes) -> None:
    """Load and lint; whatever comes, it must be consistent."""
    loaded = load_policy("yunikorn", data, "f")
    assert list(loaded.diagnostics) == sort_diagnostics(loaded.diagnostics)
    assert all(diagnostic.message and diagnostic.remedy for diagnostic in loaded.diagnostics)
    assert all("\n" not in str(diagnostic) for diagnostic in loaded.diagnostics)
    if has_errors(loaded.diagnostics):
        assert not loaded.partitions
    assert not has_errors(lint_policy("yunikorn", data, "f"))


@settings(max_examples=60)
@given(
    st.one_of(TREES, QUEUES.map(lambda queues: {"partitions": [{"queues": queues}]}), PARTITIONS)
)
def test_random_structures_never_raise(tree: object) -> None:
    check(yaml.safe_dump(tree, allow_unicode=True).encode(errors="replace"))


PIECES = st.sampled_from(
    [
        *("partitions:", "\n", "  ", "- ", "name: ", "queues:", "[", "]", "{", "}", ",", ": "),
        *("submitacl: ", '"*"', "*", "&a ", "*a", "<<: ", "~", "'", '"', "#", "|", "\t", "!x "),
        *("root", "\x00"),
    ]
)


@settings(max_examples=60)
@given(
    st.one_of(st.binary(max_size=80), st.lists(PIECES, max_size=40).map("".join).map(str.encode))
)
def test_random_texts_give_findings_and_no_exception(data: bytes) -> None:
    check(data)


NAMES = st.text(st.sampled_from("abXY01_:#/@-"), min_size=1, max_size=4)
WORDS = st.text(st.sampled_from("abC_.@-9$"), max_size=3)
ACLS = st.one_of(
    st.just("*"),
    st.lists(st.lists(WORDS, max_size=3).map(",".join), max_size=2).map(" ".join),
)


def trees(depth: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return queues with unique names and well-formed ACLs."""
    queue = {"name": NAMES}
    optional = {"submitacl": ACLS, "adminacl": ACLS}
    if depth:
        optional["queues"] = trees(depth - 1)  # type: ignore[assignment]
    return st.lists(
        st.fixed_dictionaries(queue, optional=optional),
        max_size=3,
        unique_by=lambda queue: queue["name"].lower(),
    )


def expected(queues: list[dict[str, Any]], path: str) -> list[tuple[str, str, str]]:
    found = []
    for queue in queues:
        below = f"{path}.{queue['name'].lower()}"
        found.append((below, queue.get("submitacl", ""), queue.get("adminacl", "")))
        found += expected(queue.get("queues", []), below)
    return found


def is_acl(text: str) -> bool:
    try:
        parse(text)
    except AclError:
        return False
    return True


@settings(max_examples=60)
@given(trees(3), ACLS, st.sampled_from([None, False, True]))
def test_valid_trees_come_back_whole(
    queues: list[dict[str, Any]], acl: str, flow: bool | None
) -> None:
    root = {"name": "root", "submitacl": acl, "queues": queues}
    text = yaml.safe_dump({"partitions": [{"queues": [root]}]}, default_flow_style=flow)
    loaded = load_policy("yunikorn", text.encode(), "f")
    wanted = [("root", acl, ""), *expected(queues, "root")]
    assert all(is_acl(text) for _, *texts in wanted for text in texts)
    assert not has_errors(loaded.diagnostics)
    found = loaded.partitions["default"].queues
    assert [(path, q.submit_acl.text, q.admin_acl.text) for path, q in found.items()] == wanted
    for path, submit, admin in wanted:
        assert found[path].submit_acl == parse(submit)
        assert found[path].admin_acl == parse(admin)
