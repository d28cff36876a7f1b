"""Random XML in the shape of YARN's files, read as the oracle reads it."""

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from hypothesis import event, given, settings
from hypothesis import strategies as st

from queuegate_server.formats.diagnostics import Diagnostics
from queuegate_server.formats.registry import load_policy
from queuegate_server.formats.yarn.properties import Configuration
from tests.support.oracles.hadoop_files import LoadError, allocations, properties

KEYS = st.sampled_from(
    ["yarn.acl.enable", "yarn.admin.acl", " yarn.admin.acl\n", "a", "A", "", " ", "\u00a0a"]
)
VALUES = st.one_of(
    st.sampled_from(["", " ", "*", "true", " g", "<", "&", "bob g", "\n x\n"]),
    st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=6),
)
CHILDREN = st.lists(
    st.one_of(
        st.tuples(st.just("name"), KEYS),
        st.tuples(st.just("value"), VALUES),
        st.tuples(st.just("value"), VALUES),
        st.tuples(st.just("final"), st.sampled_from(["true", " true ", "TRUE", "false", ""])),
        st.tuples(st.sampled_from(["source", "description", "Value"]), VALUES),
    ),
    max_size=4,
)
ATTRIBUTES = st.fixed_dictionaries(
    {}, optional={"name": KEYS, "value": VALUES, "final": st.sampled_from(["true", "false"])}
)
PROPERTIES = st.lists(st.tuples(ATTRIBUTES, CHILDREN), max_size=5)


def tag(name: str, attributes: dict[str, str], inner: str) -> str:
    stated = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
    return f"<{name}{stated}>{inner}</{name}>"


def configuration(stated: list[tuple[dict[str, str], list[tuple[str, str]]]]) -> str:
    inner = "".join(
        tag(
            "property",
            attributes,
            "".join(
                f"<{name}>{escape(text)}<!-- {number} --></{name}>"
                for number, (name, text) in enumerate(children)
            ),
        )
        for attributes, children in stated
    )
    return f"<configuration>{inner}</configuration>"


@given(st.lists(PROPERTIES.map(configuration), min_size=1, max_size=3))
def test_random_properties(texts: list[str]) -> None:
    """Of one file, and of files that lie over each other."""
    found = Configuration()
    for text in texts:
        diagnostics = Diagnostics("f")
        assert found.add(text.encode(), diagnostics, is_read=lambda _: False)
        assert not diagnostics.error_count
    diagnostics = Diagnostics("f")
    values = found.read(diagnostics, is_read=lambda _: False)
    assert {name: value.text for name, value in values.items()} == properties(*texts)
    assert not diagnostics.error_count


NAMES = st.sampled_from(
    ["a", "b", "A", "é", " a ", "\u00a0b", "root", "Root", "x y", "", " ", "a.b"]
)
ACLS = st.tuples(
    st.sampled_from(["aclSubmitApps", "aclAdministerApps", "aclsubmitapps"]),
    st.sampled_from([" ", "*", "bob", " g", "bob g", "\n bob\n", "a &amp; b", "bob", " ", ""]),
)
OTHERS = st.sampled_from(["<weight>2</weight>", "<!-- queue -->", "text", '<queu name="z"/>'])
TAGS = st.sampled_from(["queue", "queue", "queue", "pool", "ue", "Queue"])
CONTENT = st.one_of(
    ACLS.map(lambda acl: f"<{acl[0]}>{acl[1]}</{acl[0]}>"),
    ACLS.map(lambda acl: f"<{acl[0]}>{acl[1]}</{acl[0]}>"),
    OTHERS,
)
QUEUES: st.SearchStrategy[Any] = st.recursive(
    CONTENT,
    lambda below: st.builds(
        lambda kind, name, parts: tag(kind, {"name": name} if name else {}, "".join(parts)),
        TAGS,
        NAMES,
        st.lists(below, max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=200)
@given(st.lists(QUEUES, max_size=3), st.booleans())
def test_random_allocation_files(parts: list[str], in_root: bool) -> None:
    inner = "".join(parts)
    text = (
        f"<allocations>{tag('queue', {'name': 'root'}, inner) if in_root else inner}</allocations>"
    )
    loaded = load_policy("fair-scheduler", text.encode(), "f")
    try:
        expected = allocations(text)
    except LoadError:
        assert not loaded.partitions
        event("refused")
        return
    event("loaded")
    found = loaded.partitions["default"].queues
    assert set(found) == set(expected)
    for path, acls in expected.items():
        # An ACL that is not set is that of nobody here: so it is documented.
        assert found[path].submit_acl.text == acls.get("aclSubmitApps", " ")
        assert found[path].admin_acl.text == acls.get("aclAdministerApps", " ")
