"""docs/reference/yarn-semantics.md: the table of ACL texts, by the parser itself."""

import re
from pathlib import Path

import pytest

from queuegate.policy.acl import Acl
from queuegate.policy.yarn_acl import Semantics, parse_yarn

PAGE = Path("docs/reference/yarn-semantics.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| `([^`|]+)` \| ([^|]+) \| ([^|]+) \|$", PAGE.partition("\n## Queues")[0], re.MULTILINE
)


def described(acl: Acl) -> set[str]:
    """Return what the page says of an ACL."""
    if acl.allows_all:
        return {"everyone"}
    names = {
        *(f"user {name}" for name in acl.users),
        *(f"group {name}" for name in acl.groups),
        *(f"every user for whom the service {name} acts" for name in acl.proxies),
    }
    return names or {"nobody"}


@pytest.mark.parametrize(("acl", "documented", "hadoop"), ROWS, ids=[row[0] for row in ROWS])
def test_an_acl(acl: str, documented: str, hadoop: str) -> None:
    text = acl.replace("␣", " ")
    for semantics, shown in ((Semantics.DOCUMENTED, documented), (Semantics.HADOOP, hadoop)):
        assert described(parse_yarn(text, semantics)) == set(shown.replace("`", "").split(", "))


def test_the_table_is_read() -> None:
    assert len(ROWS) > 10
