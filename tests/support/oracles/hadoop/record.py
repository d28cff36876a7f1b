"""Write `tests/vectors/yarn_layer_vectors.json`: pairs of files, with the answers of Hadoop 3.4.1.

python -m tests.support.oracles.hadoop.record
"""

import json
import random
from pathlib import Path
from typing import Final

from tests.support.generators.yarn_layers import layers
from tests.support.oracles.hadoop.process import running_hadoop
from tests.support.yarn_layer_answers import QUESTIONS

VECTORS: Final = Path("tests/vectors/yarn_layer_vectors.json")
_PAIRS: Final = 60


def record() -> None:
    """Ask Hadoop, and write the file."""
    chance = random.Random(3)
    lines = []
    with running_hadoop() as hadoop:
        for _ in range(_PAIRS):
            site, scheduler = layers(chance)
            asked = {"site": site, "scheduler": scheduler}
            answer = hadoop.ask("queues", **asked, questions=QUESTIONS)
            lines.append(json.dumps({**asked, "answer": answer}, ensure_ascii=False))
    VECTORS.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    record()
