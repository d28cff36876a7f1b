"""Random files of a capacity scheduler that creates queues, and questions about these queues."""

import random
from typing import Any, Final
from xml.sax.saxutils import escape

PREFIX: Final = "yarn.scheduler.capacity."
_ACLS: Final = ("acl_submit_applications", "acl_administer_queue")
_TEXTS: Final = (" ", "ann", "bob ops", " dev", "ann,cem", "*", "${names}", "eve dev,ops")
_KINDS: Final = ("template", "leaf-template", "parent-template")
_NAMES: Final = ("x", "y", "team", "*")
_CONFIGURED: Final = ("root.a", "root.a.b", "root.m", "root.f", "root.f.g")
PEOPLE: Final[tuple[tuple[str, list[str]], ...]] = (
    ("ann", []),
    ("bob", []),
    ("cem", ["ops"]),
    ("dan", ["dev"]),
    ("eve", []),
)


def capacity_scheduler(chance: random.Random) -> str:
    """Return a file with which Hadoop's capacity scheduler starts."""
    values = {
        "root.queues": "a,m,f,default",
        "root.a.queues": "b",
        "root.f.queues": "g",
        "names": "ann",
    }
    for path in (*_CONFIGURED, "root.default"):
        values[f"{path}.capacity"] = "1w"
    for path in ("root", *_CONFIGURED):
        for acl in _ACLS:
            if path == "root" or chance.random() < 0.3:
                values[f"{path}.{acl}"] = chance.choice((" ", " ", " ", "ann", " ops"))
    creators = ["root.m"] if chance.random() < 0.7 else []
    for path in creators:
        values[f"{path}.auto-create-child-queue.enabled"] = chance.choice(("true", " TRUE", "1"))
        values[f"{path}.leaf-queue-template.capacity"] = "10"
    for path in ("root", "root.a", "root.a.b", "root.f", "root.f.g"):
        if chance.random() < 0.6:
            flag = chance.choice(("true", "true", "true", "True ", "yes"))
            values[f"{path}.auto-queue-creation-v2.enabled"] = flag
    for path in ("", "root.", "root.a.", "root.f.", "root.f.x.", "root.f.g."):
        if chance.random() < 0.25:
            depth = str(chance.choice((0, 1, 2, 2, 3, 4, "0x2", -1)))
            values[f"{path}auto-queue-creation-v2.maximum-queue-depth"] = depth
    _add_templates(values, chance)
    properties = [
        f"<property><name>{'' if key == 'names' else PREFIX}{key}</name>"
        f"<value>{escape(value)}</value></property>"
        for key, value in values.items()
    ]
    chance.shuffle(properties)
    return "<configuration>\n{}\n</configuration>\n".format("\n".join(properties))


def _add_templates(values: dict[str, str], chance: random.Random) -> None:
    starts = ("root", "root.a", "root.f", "root.f.g", "root.a.b", "root.*", "root.*.*")
    for _ in range(chance.randrange(1, 9)):
        levels = [chance.choice(_NAMES) for _ in range(chance.randrange(3))]
        path = ".".join((chance.choice(starts), *levels))
        key = f"{path}.auto-queue-creation-v2.{chance.choice(_KINDS)}.{chance.choice(_ACLS)}"
        values[key] = chance.choice(_TEXTS)
    for acl in _ACLS:
        if chance.random() < 0.6:
            path = chance.choice(("root.m", "root.m", "root.f", "root.*"))
            values[f"{path}.leaf-queue-template.{acl}"] = chance.choice(_TEXTS)
        if chance.random() < 0.3:
            # For a queue that does not exist, it has no effect.
            path = chance.choice(("root.m.x", "root.f.x", "root.f.x.y", "root.a.b.team"))
            values[f"{path}.{acl}"] = chance.choice(_TEXTS)


def questions(chance: random.Random, number: int = 12) -> list[dict[str, Any]]:
    """Return questions about queues below the configured ones."""
    questions = []
    for _ in range(number):
        start = chance.choice(("root", *_CONFIGURED))
        levels = [
            chance.choice(("x", "y", "team", "z")) for _ in range(chance.choice((1, 1, 2, 2, 3, 4)))
        ]
        user, groups = chance.choice(PEOPLE)
        questions.append({"user": user, "groups": groups, "queue": ".".join((start, *levels))})
    return questions
