"""Policies in ConfigMap manifests, chart values and gzip, with the places of the file."""

import base64
import gzip
import json
import textwrap
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.decision import Access
from queuegate_server.formats import registry, yaml_reader
from queuegate_server.formats.acl_positions import AclKey, acl_positions
from queuegate_server.formats.detection import detect_file_format, detect_policy_format
from queuegate_server.formats.diagnostics import Diagnostics, ParseError
from queuegate_server.formats.envelope import OpenedText, open_envelope
from queuegate_server.formats.registry import DEFAULT_OPTIONS, check_file, load_policy
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.policystore import parsing


def gz(data: bytes) -> bytes:
    """Return the same bytes in each process: they are in names of tests."""
    return gzip.compress(data, 1, mtime=0)


POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: a
            submitacl: "sue"
"""
XML = """\
<?xml version="1.0"?>
<allocations>
  <queue name="root"><aclSubmitApps>sue
ann</aclSubmitApps><aclAdministerApps> </aclAdministerApps></queue>
</allocations>
"""


def config_map(key: str, text: str, name: str = "yunikorn-configs") -> str:
    inner = textwrap.indent(text, "    ")
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"
        f"data:\n  log.level: '0'\n  {key}: |\n{inner}"
    )


def binary(key: str, content: bytes) -> str:
    encoded = base64.b64encode(content).decode()
    return (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yunikorn-configs}\n"
        f"binaryData:\n  {key}: {encoded}\n"
    )


NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: yunikorn}\n---\n"
AS_JSON = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {"kind": "Namespace", "metadata": {"name": "x"}},
        {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"queues.yaml": POLICY}},
    ],
}
CHART = f"yunikorn:\n  yunikornDefaults:\n    queues.yaml: |\n{textwrap.indent(POLICY, ' ' * 6)}"
ENVELOPES = {
    "a ConfigMap": config_map("queues.yaml", POLICY),
    "several documents": NAMESPACE + config_map("queues.yaml", POLICY) + "---\n",
    "a document before it that is empty": "---\n---\n" + config_map("queues.yaml", POLICY),
    "a List": json.dumps(AS_JSON, indent=1),
    "a List in one line": json.dumps(AS_JSON),
    "chart values": CHART,
    "an old chart": f"configuration: |\n{textwrap.indent(POLICY, '  ')}",
    "a text in quotes": f"data:\n  queues.yaml: {json.dumps(POLICY)}\n",
    "binaryData": binary("queues.yaml", POLICY.encode()),
    "compressed binaryData": binary("queues.yaml.gz", gz(POLICY.encode())),
    "a policy group": "kind: ConfigMap\ndata:\n  service.policyGroup: blue\n"
    f"  queues.yaml: not this\n  blue.yaml: |\n{textwrap.indent(POLICY, '    ')}",
    "the defaults, too": config_map("queues.yaml", "partitions: []\n", "yunikorn-defaults")
    + "---\n"
    + config_map("queues.yaml", POLICY),
    "a group of the defaults": config_map("queues.yaml", "partitions: []\n")
    + "---\nkind: ConfigMap\nmetadata: {name: yunikorn-defaults}\ndata:\n"
    + f"  service.policyGroup: blue\n  blue.yaml: |\n{textwrap.indent(POLICY, '    ')}",
    "a group of the configs, and its queues in the defaults": config_map(
        "blue.yaml", POLICY, "yunikorn-defaults"
    )
    + "---\nkind: ConfigMap\nmetadata: {name: yunikorn-configs}\n"
    + "data: {service.policyGroup: blue, queues.yaml: not this}\n",
    "the same twice": config_map("queues.yaml", POLICY, "a")
    + "---\n"
    + config_map("queues.yaml", POLICY, "b"),
    "Windows line ends": config_map("queues.yaml", POLICY).replace("\n", "\r\n"),
    "an Application of Argo CD": "kind: Application\nspec:\n  source:\n    helm:\n      values: |\n"
    f"{textwrap.indent(CHART, ' ' * 8)}",
    "an Application with an object": "kind: Application\nspec:\n  valuesObject:\n"
    f"{textwrap.indent(CHART, ' ' * 4)}",
    "a HelmRelease": f"kind: HelmRelease\nspec:\n  values:\n{textwrap.indent(CHART, ' ' * 4)}",
    "a Secret": "kind: Secret\nmetadata: {name: s}\ndata:\n  queues.yaml: "
    f"{base64.b64encode(POLICY.encode()).decode()}\n",
    "a Secret with text": "kind: Secret\nstringData:\n  queues.yaml: |\n"
    f"{textwrap.indent(POLICY, '   ')}",
    "with the start of a document": config_map("queues.yaml", f"---\n{POLICY}"),
}


@pytest.mark.parametrize("name", ENVELOPES)
def test_the_policy_is_read(name: str) -> None:
    for data in (ENVELOPES[name].encode(), gz(ENVELOPES[name].encode())):
        assert detect_policy_format(data) == "yunikorn"
        loaded = load_policy("yunikorn", data, "file")
        assert loaded.diagnostics == ()
        partition = loaded.partitions["default"]
        assert partition.chain("root.a", Access.SUBMIT).users


def test_the_places_of_acls() -> None:
    text = NAMESPACE + config_map("queues.yaml", POLICY)
    places = acl_positions("yunikorn", text.encode(), "manifest", DEFAULT_OPTIONS)
    place = places[AclKey("default", "root.a", Access.SUBMIT)]
    assert place.file == "manifest"
    assert text.splitlines()[place.line - 1][place.column - 1 :] == '"sue"'


def test_xml_keeps_its_white_space() -> None:
    """A line break and the blanks behind it would be part of an ACL."""
    text = config_map("fair-scheduler.xml", XML)
    assert detect_policy_format(text.encode()) == "fair-scheduler"
    inside = load_policy("fair-scheduler", text.encode(), "manifest")
    alone = load_policy("fair-scheduler", XML.encode(), "manifest")
    for name in ("sue", "ann", "sue\nann"):
        one, other = (
            load.partitions["default"].chain("root", Access.SUBMIT) for load in (inside, alone)
        )
        assert (name in one.users) == (name in other.users)
    broken = text.replace("aclSubmitApps>", "aclSumbitApps>")
    [found, *_] = load_policy("fair-scheduler", broken.encode(), "manifest").diagnostics
    line = broken.splitlines()[found.line - 1]
    assert line[found.column - 1 :].startswith(("<aclSumbitApps>", "<queue"))


@pytest.mark.parametrize(
    "text",
    [
        f"# made from queues.yaml: of the chart\n{POLICY}",
        f"# capacity-scheduler.xml: was converted\n{POLICY}",
        f"{POLICY}# kind: ConfigMap\n",
    ],
)
def test_a_comment_makes_no_envelope(text: str) -> None:
    assert open_envelope(text.encode(), "file").data == text.encode()
    assert detect_policy_format(text.encode()) == "yunikorn"


@pytest.mark.parametrize("start", ["", "\ufeff", " \n" * 600, "\ufeff" + "\n" * 70_000])
@pytest.mark.parametrize(
    "words", ["yarn-site.xml: ours", "fair-scheduler.xml: x", "kind: ConfigMap"]
)
def test_a_comment_in_xml_makes_no_envelope(start: str, words: str) -> None:
    text = f"{start}<allocations>\n<!-- {words}\n-->\n<queue name='root'/></allocations>".encode()
    assert open_envelope(text, "file").data == text
    loaded = load_policy("fair-scheduler", text, "file")
    assert list(loaded.partitions) == ["default"]


def fault(data: bytes) -> str:
    [found] = load_policy("yunikorn", data, "file").diagnostics
    return str(found)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gz(POLICY.encode())[:-9], "the compressed file is truncated"),
        (b"\x1f\x8bnot gzip at all", "looks like gzip, but cannot be decompressed"),
        (binary("queues.yaml", b"").replace(": \n", ": '%%%'\n").encode(), "is not base64"),
    ],
    ids=["cut off", "not gzip", "not base64"],
)
def test_damage(content: bytes, message: str) -> None:
    assert message in fault(content)


def test_a_bomb_is_bounded() -> None:
    bomb = gz(b"#" * (MAX_BYTES + 2))
    assert f"holds more than {MAX_BYTES} bytes" in fault(bomb)
    with pytest.raises(ParseError, match="holds more than"):
        open_envelope(binary("queues.yaml.gz", bomb).encode(), "file")


def test_layers_end() -> None:
    data = POLICY.encode()
    for _ in range(6):
        data = gz(data)
    assert load_policy("yunikorn", data, "file").diagnostics


def test_the_format_of_a_file_is_detected() -> None:
    assert detect_file_format(
        config_map("capacity-scheduler.xml", "<configuration/>\n").encode()
    ) == ("capacity-scheduler")
    found = check_file(
        "yunikorn", config_map("queues.yaml", POLICY).encode(), "f", DEFAULT_OPTIONS, with_lint=True
    )
    assert found == []


def test_the_documents_of_a_file_share_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_reader, "MAX_NODES", 100)
    document = f"names: [{', '.join('a' * 40)}]\n"
    assert (
        len(yaml_reader.read_documents("---\n".join([document] * 2).encode(), Diagnostics(""))) == 2
    )
    with pytest.raises(ParseError, match="more than 100 keys and values"):
        yaml_reader.read_documents("---\n".join([document] * 3).encode(), Diagnostics(""))


INLINE = json.dumps({"kind": "ConfigMap", "data": {"queues.yaml": POLICY}}, indent="\t")


@pytest.mark.parametrize(
    "text",
    [
        config_map("queues.yaml", POLICY).replace("|", "&queues |"),
        config_map("queues.yaml", POLICY).replace("|", "!!str |"),
        config_map("queues.yaml", POLICY).replace("|", "|2"),
        config_map("queues.yaml", POLICY).replace("|", "|-  # queues"),
        config_map("queues.yaml", POLICY.replace("\n", "\n\n")).replace("|", ">"),
        (
            f"x: &queues |\n{textwrap.indent(POLICY, '  ')}"
            "kind: ConfigMap\ndata: {queues.yaml: *queues}\n"
        ),
        f"\ufeff{config_map('queues.yaml', POLICY)}",
        config_map("queues.yaml", POLICY).replace("\n", "\r"),
        INLINE,
        f"# kind: ConfigMap\n{POLICY}# queues.yaml: generated\n",
    ],
)
def test_other_styles(text: str) -> None:
    loaded = load_policy("yunikorn", text.encode(), "file")
    assert loaded.diagnostics == ()
    assert loaded.partitions["default"].chain("root.a", Access.SUBMIT).users


LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]\n" for number in range(1, 9)
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("kind: ConfigMap\nx: " + "[" * 100_000, "nested more than 200 levels"),
        (f"{LAUGHS}{config_map('queues.yaml', POLICY)}", "more than 500000 keys and values"),
        ("kind: ConfigMap\n---\n" * 10_001, "more than 10000 YAML documents"),
        ("kind: ConfigMap\ndata:\n  queues.yaml: |\n{{ toYaml .Values }}\n", "invalid YAML"),
        ("kind: ConfigMap\ndata: {queues.yaml: [a]}\n", "with the key queues.yaml"),
        ("kind: [ConfigMap]\ndata: {queues.yaml: x}\n", "the document must be a mapping"),
        ("kind: Secret\ndata: {queues.yaml: '}'}\n", "queues.yaml is not base64"),
        (gz(POLICY.encode()) + b"more", "cannot be decompressed"),
        (gz(POLICY.encode())[:-5], "is truncated"),
    ],
)
def test_hostile_texts_are_errors(data: str | bytes, message: str) -> None:
    text = data.encode() if isinstance(data, str) else data
    found = check_file(detect_file_format(text), text, "f", DEFAULT_OPTIONS, with_lint=True)
    assert any(message in each.message for each in found), found


@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "kind: ConfigMap",
                    "kind: Secret",
                    "data:",
                    "  queues.yaml: |",
                    "values: |",
                    "---",
                ),
                *(
                    "    partitions:",
                    "    - name: default",
                    "  - &a x",
                    "  *a",
                    "\t",
                    "{",
                    "]",
                    "items:",
                ),
                *("  queues.yaml.gz: eHg=", "binaryData:", "configuration: |", "  '", '  "', "? "),
            ]
        ),
        max_size=12,
    )
)
def test_no_text_raises(lines: list[str]) -> None:
    text = "\n".join(lines).encode()
    for each in check_file(detect_file_format(text), text, "f", DEFAULT_OPTIONS, with_lint=True):
        assert each.message


@pytest.mark.parametrize("format_name", ["", "yunikorn"])
def test_an_envelope_is_opened_once(format_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take seconds: to detect the format, to load and to lint use the same text."""
    opened: list[str] = []

    def counted(data: bytes, file: str) -> OpenedText:
        opened.append(file)
        return open_envelope(data, file)

    monkeypatch.setattr(registry, "open_envelope", counted)
    file = parsing.File("manifest", config_map("queues.yaml", POLICY).encode())
    text = parsing.PolicyText(file, format_name, DEFAULT_OPTIONS)
    parsed = parsing.parse(parsing.ParseJob((text,), ""))
    assert parsed.partitions
    assert opened == ["manifest"]
    opened.clear()
    parsing.check(parsing.CheckJob(format_name, (file,)))
    assert opened == ["manifest"]


@pytest.mark.parametrize("detect", [detect_policy_format, detect_file_format])
def test_the_format_of_a_compressed_policy_is_that_of_its_text(
    detect: Callable[[bytes], str],
) -> None:
    assert detect(gz(XML.encode())) == "fair-scheduler"
