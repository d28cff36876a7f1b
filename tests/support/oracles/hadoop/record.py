"""Writes `tests/vectors/yarn_layer_vectors.json`, pairs of files, and `yarn_template_vectors.json`,
files of schedulers that create queues, with the answers of Hadoop 3.4.1.

python -m tests.support.oracles.hadoop.record
"""

import json
import random
from pathlib import Path
from typing import Any, Final

from tests.support.generators.yarn_layers import layers
from tests.support.generators.yarn_templates import capacity_scheduler, questions
from tests.support.oracles.hadoop.process import running_hadoop
from tests.support.yarn_layer_answers import QUESTIONS

VECTORS: Final = Path("tests/vectors/yarn_layer_vectors.json")
TEMPLATE_VECTORS: Final = Path("tests/vectors/yarn_template_vectors.json")
_PAIRS: Final = 60
_FILES: Final = 50


def record_layers() -> None:
    """Ask Hadoop about pairs of files, and write the answers."""
    chance = random.Random(3)
    lines = []
    with running_hadoop() as hadoop:
        for _ in range(_PAIRS):
            site, scheduler = layers(chance)
            asked = {"site": site, "scheduler": scheduler}
            answer = hadoop.ask("queues", **asked, questions=QUESTIONS)
            lines.append(json.dumps({**asked, "answer": answer}, ensure_ascii=False))
    VECTORS.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def record_templates() -> None:
    """Ask Hadoop about queues that it would create, and write the answers."""
    chance = random.Random(4)
    lines = []
    with running_hadoop() as hadoop:
        for _ in range(_FILES):
            asked: dict[str, Any] = {"scheduler": capacity_scheduler(chance)}
            asked["questions"] = questions(chance)
            asked["create"] = chance.choice(asked["questions"])["queue"]
            answer = hadoop.ask("created", **asked)
            lines.append(json.dumps({**asked, "answer": answer}))
    TEMPLATE_VECTORS.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    record_layers()
    record_templates()
