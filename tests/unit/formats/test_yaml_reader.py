"""The YAML reader: values it keeps, texts it refuses, and agreement of both parsers."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.formats import source_text, yaml_builder, yaml_reader
from queuegate_server.formats.yaml_nodes import MappingNode, ScalarNode, SequenceNode, plain_data
from queuegate_server.formats.yaml_reader import read_yaml
from tests.support.rows import rows

PARSERS = {"libyaml": yaml.CBaseLoader, "pure Python": yaml.BaseLoader}


@pytest.fixture(params=PARSERS)
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_reader, "_PARSER", PARSERS[request.param])


def data(text: str) -> object:
    document = read_yaml(text.encode(), "f")
    assert document.diagnostics == ()
    return plain_data(document.root)


def fault(text: str | bytes) -> str:
    document = read_yaml(text if isinstance(text, bytes) else text.encode(), "f")
    assert document.root is None
    (diagnostic,) = document.diagnostics
    assert diagnostic.remedy
    return str(diagnostic).removesuffix(f" ({diagnostic.remedy})")


def test_libyaml_is_used() -> None:
    assert yaml_reader._PARSER is yaml.CBaseLoader


@pytest.mark.usefixtures("_parser")
@rows
def test_keeps_texts_and_structure(text: str, expected: object) -> None:
    assert data(text) == expected


@pytest.mark.usefixtures("_parser")
def test_nodes_have_positions_and_styles() -> None:
    root = read_yaml('# é\nä: "x"\nlist:\n  - plain\n  - {k: ~}\nb: |\n  text\n'.encode(), "f").root
    assert isinstance(root, MappingNode)
    assert (root.line, root.column) == (2, 1)
    key, value = root.entries["ä"]
    assert isinstance(value, ScalarNode)
    assert (key.line, key.column, value.line, value.column, value.plain) == (2, 1, 2, 4, False)
    items = root.get("list")
    assert isinstance(items, SequenceNode)
    plain, flow = items.items
    assert isinstance(plain, ScalarNode)
    assert (plain.line, plain.column, plain.plain, plain.is_null) == (4, 5, True, False)
    assert isinstance(flow, MappingNode)
    null = flow.get("k")
    assert isinstance(null, ScalarNode)
    assert (null.line, null.column, null.text, null.is_null) == (5, 9, "~", True)
    block = root.get("b")
    assert isinstance(block, ScalarNode)
    assert (block.line, block.column, block.plain) == (6, 4, False)
    assert root.get("missing") is None


@pytest.mark.usefixtures("_parser")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: *\n", '1:4: error: an unquoted "*" starts a YAML alias'),
        ("a: *b\n", "1:4: error: the alias has no anchor above it"),
        ("a: &a [*a]", "1:8: error: the anchor contains itself"),
        ("a: &a {<<: *a}", "1:12: error: the anchor contains itself"),
        ("a:\n\t- b\n", "2:1: error: a tab is not allowed here"),
        ("? [a]\n: b", "1:3: error: a key is a list or a mapping"),
        ("? {a: b}\n: b", "1:3: error: a key is a list or a mapping"),
        ("~: b", "1:1: error: a key is missing"),
        ("<<: a", "1:5: error: << merges something that is not a mapping"),
        ("<<: [{}, []]", "1:10: error: << merges something that is not a mapping"),
        ("a: !!int 5", "1:4: error: the tag is not supported"),
        ("a: !!map []", "1:4: error: the tag is not supported"),
        ("a: !x {}", "1:4: error: the tag is not supported"),
        ("%YAML 1.2\n---\na: b", "1:1: error: only YAML 1.1 is supported, as in YuniKorn"),
        ("ä: \x07", "1:4: error: YAML does not allow the character U+0007"),
        ("a\r\n\0", "2:1: error: YAML does not allow the character U+0000"),
        ("a: \ufeffb", "1:4: error: YAML does not allow the character U+FEFF"),
        ("a: b\u2028é: \ufffe", "2:4: error: YAML does not allow the character U+FFFE"),
        (
            "ä: é\n  \xfc".encode("latin-1"),
            "1:1: error: not UTF-8: byte 0xe4 is not valid",
        ),
        (
            b"\xef\xbb\xbf\xc3\xa4\xff",
            "1:2: error: not UTF-8: byte 0xff is not valid",
        ),
        ("a".encode("utf-16"), "1:1: error: not UTF-8: byte 0xff is not valid"),
        (b"\x1f\x8b\x08\x00", "1:1: error: the file is compressed with gzip"),
    ],
)
def test_refuses_with_a_position(text: str | bytes, expected: str) -> None:
    assert fault(text) == f"f:{expected}"


@pytest.mark.usefixtures("_parser")
@rows
def test_syntax_errors_have_a_position(text: str, positions: set[tuple[int, int]]) -> None:
    document = read_yaml(text.encode(), "f")
    assert document.root is None
    (diagnostic,) = document.diagnostics
    assert diagnostic.message.startswith("invalid YAML: ")
    assert (diagnostic.line, diagnostic.column) in positions


@pytest.mark.usefixtures("_parser")
@pytest.mark.parametrize(
    "text", ["a: [^b?c]", "{a: b, c: !!str d ?}", "{a?b: c}", "[{a: b\n  ?}]", "[a?]"]
)
def test_question_marks_within_braces_or_brackets(text: str) -> None:
    """go-yaml refuses them as well; libyaml reads them."""
    [refused] = read_yaml(text.encode(), "f").diagnostics
    assert refused.message == 'a word within braces or brackets cannot contain a "?"'
    assert refused.remedy == "put the word in quotes"


@pytest.mark.usefixtures("_parser")
def test_repeated_keys_are_all_reported_and_the_first_ones_count() -> None:
    document = read_yaml(b"a: 1\nb: {c: 1, c: 2, 'c': 3}\na: 2\n", "f")
    assert plain_data(document.root) == {"a": "1", "b": {"c": "1"}}
    assert [(p.line, p.column, p.message) for p in document.diagnostics] == [
        (2, 11, 'the key "c" is repeated; line 2 already has it'),
        (2, 17, 'the key "c" is repeated; line 2 already has it'),
        (3, 1, 'the key "a" is repeated; line 1 already has it'),
    ]


@pytest.mark.usefixtures("_parser")
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", "")])
def test_depth_is_bounded(opening: str, closing: str) -> None:
    deep = yaml_builder.MAX_DEPTH
    assert data(opening * deep + "x" + closing * deep)
    too_deep = opening * (deep + 1) + "x" + closing * (deep + 1)
    assert f"nested more than {deep} levels deep" in fault(too_deep)
    assert f"nested more than {deep} levels deep" in fault(opening * 5_000)


def test_an_alias_flood_is_refused_before_it_is_spelled_out() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    assert "f:6:25:" in fault("\n".join(rows))
    assert "more than 500000 keys and values" in fault("\n".join(rows))


def test_a_merge_flood_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_reader, "MAX_NODES", 10_000)
    rows = ["- &a0 {k: v}"]
    rows += [f"- &a{i} {{<<: [*a{i - 1}, *a{i - 1}], k{i}: v}}" for i in range(1, 40)]
    assert "more than 10000 keys and values" in fault("\n".join(rows))


def test_text_repeated_by_aliases_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_builder, "MAX_BYTES", 1000)
    text = "- &a " + "x" * 100 + "\n- &b [*a, *a]\n" + "- *b\n" * 3
    assert data(text)
    assert fault(text + "- *a\n- *a\n") == (
        "f:7:3: error: with its aliases expanded, the document is larger than 1000 characters"
    )


def test_the_number_of_nodes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_reader, "MAX_NODES", 100)
    assert data("[" + "x," * 99 + "]") == ["x"] * 99
    assert "1:200: error: the document has more than 100 keys and values" in fault(
        "[" + "x," * 100 + " x]"
    )


def test_the_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_text, "MAX_BYTES", 10)
    assert data("a: 4567890") == {"a": "4567890"}
    assert fault("a: 45678901") == "f: error: the file is larger than 10 bytes"


# PyYAML writes the line breaks of Unicode in a way that it cannot read itself.
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\x85\u2028\u2029"), max_size=8
).filter(lambda text: not source_text._FORBIDDEN.search(text))
TREES = st.recursive(
    st.one_of(st.none(), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(TEXTS.filter(bool), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(TREES, st.sampled_from([None, False, True]), st.booleans())
def test_a_written_document_is_read_back(tree: object, flow: bool | None, unicode: bool) -> None:
    text = yaml.safe_dump(tree, default_flow_style=flow, allow_unicode=unicode, sort_keys=False)
    assert data(text) == tree


PIECES = st.sampled_from(
    [*"ab:-*&|>!%@`#,[]{}?~'\"\\ ", "\n", "\n  ", "- ", ": ", "\t", "<<: ", "&a ", "*a", "---\n"]
)


@given(st.one_of(st.lists(PIECES, max_size=25).map("".join), st.text(max_size=20)))
def test_both_parsers_read_the_same(text: str) -> None:
    documents = []
    for parser in PARSERS.values():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(yaml_reader, "_PARSER", parser)
            documents.append(read_yaml(text.encode(errors="surrogatepass"), "f"))
    fast, slow = documents
    # PyYAML's own parser takes a few texts that libyaml refuses, and the other way round.
    if not fast.diagnostics and not slow.diagnostics:
        assert plain_data(fast.root) == plain_data(slow.root)


@given(
    st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=40).map("".join).map(str.encode))
)
def test_nothing_makes_it_raise(text: bytes) -> None:
    document = read_yaml(text, "f")
    assert document.root is None or plain_data(document.root) is not None
    assert all(
        diagnostic.line or "larger" in diagnostic.message for diagnostic in document.diagnostics
    )
