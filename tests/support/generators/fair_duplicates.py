"""Random fair-scheduler.xml files that declare queues again, as leaves and as parents."""

import random
from typing import Final

PEOPLE: Final = ("ann", "bob", "cem", "dan")

_NAMES: Final = ("a", "b", "etl", "daily", "prod", "default")
_CLOSED: Final = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"


def fair_scheduler(chance: random.Random) -> str:
    """Return a file that Hadoop loads unless a parent is reservable."""
    queues = "".join(_queue(chance, 1) for _ in range(chance.randrange(1, 5)))
    return f'<allocations><queue name="root">{_CLOSED}{queues}</queue></allocations>'


def _queue(chance: random.Random, level: int) -> str:
    text = f'<queue name="{chance.choice(_NAMES)}"'
    if chance.random() < 0.15:
        text += ' type="parent"'
    text += ">"
    for acl in ("aclSubmitApps", "aclAdministerApps"):
        if chance.random() < 0.5:
            text += f"<{acl}>{chance.choice(PEOPLE)}</{acl}>"
    if chance.random() < 0.05:
        text += "<reservation/>"
    if level < 4 and chance.random() < 0.6:
        text += "".join(_queue(chance, level + 1) for _ in range(chance.randrange(1, 4)))
    return f"{text}</queue>"
