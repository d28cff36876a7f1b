"""Documents for programs."""

import json
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from queuegate.cli.documents import to_json, to_table, to_yaml

# What a message of protobuf can hold: no surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.from_regex(r"[a-z]{2,8}_[a-z]", fullmatch=True), inner)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["user", "queue", "steps", "groups"]), VALUES, min_size=1))
def test_what_is_written_is_read(document: dict[str, Any]) -> None:
    assert json.loads(to_json(document)) == document
    written = to_yaml(document)
    assert yaml.safe_load(written) == document
    assert written.replace("\n", "").isprintable()


def test_yaml() -> None:
    document = {"user": "yes", "empty": [], "steps": [{"queue": "root", "names": ["a", "b: c"]}]}
    assert to_yaml(document) == (
        'user: "yes"\nempty: []\nsteps:\n  - queue: "root"\n    names:\n      - "a"\n      - "b: c"'
    )


def test_columns_of_a_table_are_aligned() -> None:
    rows = [("root", "*", ""), ("root.\x1b", "a b", "x")]
    assert [*to_table(("QUEUE", "SUBMIT ACL", "ADMIN ACL"), rows)] == [
        "QUEUE      SUBMIT ACL  ADMIN ACL",
        "root       *",
        "root.\\x1b  a b         x",
    ]
