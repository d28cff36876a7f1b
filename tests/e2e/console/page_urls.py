"""The pages of the console with something to show, by name, on both servers of these tests."""

from typing import Final
from urllib.parse import quote, urlencode

from tests.support.servers.console_server import HOSTILE_PARTITION

QUEUE: Final = "root.analytics.reports"
EXAMPLES: Final = {
    "queues": f"queues?{urlencode({'queue': QUEUE, 'who': 1})}",
    "access": f"access?{urlencode({'user': 'dana', 'queue': QUEUE})}",
    "user": "user?user=sue",
    "change": "change",
    "health": "health",
    "denials": "denials",
}


def hostile(name: str, queue: str) -> dict[str, str]:
    """Return the pages about a user and a queue with hostile names."""
    path, partition = f"root.{queue}", HOSTILE_PARTITION
    return {
        "queues": _url("queues", partition=partition, queue=path, who=1, search=name),
        "access": _url("access", partition=partition, user=name, queue=path, groups=name),
        "user": _url("user", partition=partition, user=name),
        "denials": _url("denials", user=name, queue=path),
    }


def misspelt(name: str) -> dict[str, str]:
    """Return pages that do not exist, with a hostile name in the URL."""
    return {
        "no such partition": _url("queues", partition=name, queue=name),
        "no such page": _url(quote(name, safe=""), next=name),
        "sign in": _url("sign-in", next=name),
    }


def _url(path: str, **query: object) -> str:
    return f"{path}?{urlencode(query)}"
