"""YAML and queues.yaml: diagnostics or a policy, and the policy that the slow reader reads.

The input is the file.
"""

import json
import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from unittest import mock

import yaml

from queuegate.policy.acl import AclNames
from queuegate_server.formats import yaml_reader
from queuegate_server.formats.detection import detect_file_format
from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.formats.format_names import YUNIKORN
from queuegate_server.formats.registry import FormatOptions, check_file, lint_policy, load_policy
from queuegate_server.formats.yaml_nodes import plain_data
from queuegate_server.formats.yaml_reader import read_yaml
from tests.fuzz.targets.diagnostics import judge_diagnostics
from tests.support.oracles.queues_yaml import NotComparable, partitions, plain

_KEYS: Final = (
    "partitions name queues submitacl adminacl parent resources max guaranteed maxapplications"
    " properties childtemplate limits limit users groups maxresources placementrules create filter"
    " type value preemption enabled nodesortpolicy resourceweights usergroupresolver"
)
TOKENS: Final = (
    *(f"{key}: ".encode() for key in _KEYS.split()),
    *(b"partitions:\n  - queues:\n      - name: root\n", b"\n  - ", b"\n    ", b"\n", b"- ", b"? "),
    *(b"[", b"]", b"{", b"}", b", ", b": ", b"&a ", b"*a", b"<<: *a", b"<<: [*a, *a]", b"~"),
    *(b"null", b"true", b"'", b'"', b'"*"', b"|", b">-", b"#", b"\t", b"!!str ", b"! ", b"---\n"),
    *(b"...\n", b"%YAML 1.1\n", b"\xef\xbb\xbf", b"\xff\xfe", "\u2028".encode(), b"\\x00", b"1e9"),
    *(
        b"@recovery@",
        b"root.",
        b"0x10",
        b"1_000",
        b"10Gi",
        b"-1",
        b"binpacking",
        b"fair",
        b"(a|b)*",
    ),
)
_TEXTS: Final = ("root", "a", "*", "bob ops", "a b c", "", "~", "true", "10", "1G", "allow", "é")
_FILE: Final = "file"
_MAX_NODES: Final = 20_000
"""Instead of millions: aliases that stand for so much take seconds, which shows nothing new."""


def target(data: bytes) -> None:
    """Read one file."""
    with mock.patch.object(yaml_reader, "MAX_NODES", _MAX_NODES):
        _judge_document(data)
        names = list(AclNames)[len(data) % len(AclNames)]
        _judge_policy(data, FormatOptions(acl_names=names))
        judge_diagnostics(check_file(detect_file_format(data), data, _FILE, with_lint=True), _FILE)


def seeds() -> Iterable[bytes]:
    """The documents of the vectors."""
    vectors = Path("tests/vectors")
    for vector in json.loads((vectors / "config_vectors.json").read_text())["cases"]:
        yield vector["yaml"].encode(errors="replace")
    for vector in json.loads((vectors / "queue_vectors.json").read_text())["documents"]:
        yield vector["yaml"].encode()


def mutated(data: bytes, rng: random.Random) -> bytes | None:
    """Return the input with one mapping or list changed; a node that is then there twice becomes
    an alias. None if the input is no such YAML.
    """
    try:
        root = yaml.compose(data, yaml.BaseLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        return None
    nodes = list(_nodes(root))
    node = rng.choice(nodes) if nodes else None
    known = [*nodes, *(yaml.ScalarNode("tag:yaml.org,2002:str", text) for text in _TEXTS)]
    if isinstance(node, yaml.SequenceNode):
        node.value.append(rng.choice(nodes))
    elif not isinstance(node, yaml.MappingNode):
        return None
    elif node.value and rng.random() < 0.3:
        del node.value[rng.randrange(len(node.value))]
    else:
        key = yaml.ScalarNode("tag:yaml.org,2002:str", rng.choice(["<<", *_KEYS.split()]))
        node.value.append((key, rng.choice(known)))
    return str(yaml.serialize(root, Dumper=yaml.BaseDumper, allow_unicode=True)).encode()


def _nodes(root: Any) -> Iterator[Any]:
    """Yield each node of a document once."""
    seen = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, yaml.MappingNode):
            stack += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            stack += node.value


def _judge_document(data: bytes) -> None:
    document = read_yaml(data, _FILE)
    judge_diagnostics(document.diagnostics, _FILE)
    if not document.diagnostics:
        with suppress(NotComparable):
            expected = plain(data)
            found = plain_data(document.root)
            assert found == expected, f"{found!r}, expected {expected!r}"


def _judge_policy(data: bytes, options: FormatOptions) -> None:
    loaded = load_policy(YUNIKORN, data, _FILE, options)
    judge_diagnostics(loaded.diagnostics, _FILE)
    warnings = lint_policy(YUNIKORN, data, _FILE, options)
    judge_diagnostics(warnings, _FILE)
    assert not has_errors(warnings)
    if has_errors(loaded.diagnostics):
        assert not loaded.partitions
        return
    with suppress(NotComparable):
        found = {
            name: {
                path: (queue.submit_acl.text, queue.admin_acl.text)
                for path, queue in partition.queues.items()
            }
            for name, partition in loaded.partitions.items()
        }
        expected = partitions(plain(data))
        assert found == expected, f"{found}, expected {expected}"
