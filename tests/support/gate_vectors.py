"""The vectors of real schedulers in the form for gates of any language: compiled policies,
questions, and the server's answers.

    python -m tests.support.gate_vectors

writes `tests/vectors/gate_vectors.json`.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from queuegate.policy.decide import decide, evaluated_instead
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.compiled_policies import compiled, local_partition
from tests.support.yarn_layer_answers import QUESTIONS
from tests.support.yarn_vectors import VECTORS, loaded, readings

FILE: Final = Path("tests/vectors/gate_vectors.json")
HADOOP: Final = Semantics.HADOOP


def policies() -> Iterator[tuple[Partition, list[dict[str, Any]]]]:
    """Yield the partition of each vector, with the questions that a scheduler answered."""
    for document in json.loads(Path("tests/vectors/queue_vectors.json").read_text())["documents"]:
        policy = load_policy("yunikorn", document["yaml"].encode(), "queues.yaml")
        for name, partition in policy.partitions.items():
            yield partition, [each for each in document["questions"] if each["partition"] == name]
    for vector in VECTORS:
        asked = vector["input"]
        if vector["dialect"].endswith("-scheduler") and asked["op"] == "check":
            for semantics, _ in readings(vector):
                yield loaded(asked, semantics).partitions["default"], [asked]
    for vector in json.loads(Path("tests/vectors/yarn_layer_vectors.json").read_text()):
        site = (vector["site"].encode(), "yarn-site.xml")
        yield from _capacity_scheduler(vector, YarnOptions(HADOOP, site=site), QUESTIONS)
    for vector in json.loads(Path("tests/vectors/yarn_template_vectors.json").read_text()):
        yield from _capacity_scheduler(vector, YarnOptions(HADOOP), vector["questions"])


def _capacity_scheduler(
    vector: dict[str, Any], options: YarnOptions, questions: Sequence[dict[str, Any]]
) -> Iterator[tuple[Partition, list[dict[str, Any]]]]:
    text = vector["scheduler"].encode()
    policy = load_policy("capacity-scheduler", text, "cs.xml", FormatOptions(yarn=options))
    for partition in policy.partitions.values():
        yield partition, [*questions]


def _answers(partition: Partition, questions: Iterable[dict[str, Any]]) -> Iterator[list[Any]]:
    """Yield each question with the answer that the server gives from the policy: empty if it
    depends on the groups; None if a gate must ask, since YARN creates no queues that deep.
    """
    gate = local_partition(partition)
    for asked in questions:
        path = partition.canonical_path(asked["queue"])
        assert path is not None
        for access in Access:
            for groups in (asked["groups"], None):
                decision = decide(partition, path, access, asked["user"], groups)
                answer: list[Any] | None = []
                if gate.target(path, access) is None:
                    assert not partition.creates(path)
                    answer = None
                elif decision is not None:
                    instead = evaluated_instead(partition, path, decision)
                    answer = [*decision, instead]
                yield [asked["user"], asked["queue"], access, groups, answer]


def vectors() -> str:
    """Return the file."""
    lines = []
    for partition, questions in policies():
        policy = base64.b64encode(compiled(partition).SerializeToString(deterministic=True))
        vector = {"policy": policy.decode(), "questions": [*_answers(partition, questions)]}
        lines.append(json.dumps(vector, separators=(",", ":")))
    return "[\n{}\n]\n".format(",\n".join(lines))


if __name__ == "__main__":
    FILE.write_text(vectors())
