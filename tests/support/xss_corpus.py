"""Names that would run a script, load something or mislead a reader if a page did not escape them.

The formats accept them: YARN allows queue names without dots, ACL entries without commas and
blanks, and directories allow any group.
"""

import html
from collections.abc import Sequence
from typing import Final

NAMES: Final = (
    "<script>alert(1)</script>",
    '"><img/src=x/onerror=alert(2)>',
    "'onmouseover='alert(3)'x='",
    '"autofocus/onfocus="alert(4)"x="',
    "<svg/onload=alert(5)>",
    "</textarea><script>alert(6)</script>",
    "</title></style></script><script>alert(7)</script>",
    "--><script>alert(8)</script><!--",
    "&lt;script&gt;alert(9)&lt;/script&gt;",
    "&#60;img/src=x/onerror=alert(10)&#62;",
    "javascript:alert(11)",
    "<a/href=javascript:alert(12)>click</a>",
    "<iframe/srcdoc='<script>alert(13)</script>'>",
    "<meta/http-equiv=refresh/content=0;url=//evil>",
    "<base/href=//evil/>",
    "<link/rel=stylesheet/href=//evil/x>",
    "<img/src=//evil/x>",
    "<form/action=//evil><button>x",
    '"/hx-on:load="alert(14)"/x="',
    '"/hx-get="//evil"/hx-trigger="load"/x="',
    "<div/hx-get=//evil/hx-trigger=load>",
    "{{7*7}}{%if/1%}x{%endif%}${7*7}",
    "%3Cscript%3Ealert(15)%3C/script%3E",
    "\\x3cscript\\x3ealert(16)\\x3c/script\\x3e",
    "a\u202egpj\u202cb",
    "a\u200b\u2060\ufeffb",
    "\u2066<script>alert(17)</script>\u2069",
    "\uff1cscript\uff1ealert(18)\uff1c/script\uff1e",
    "?next=//evil#<script>alert(19)</script>",
    "../../../etc/passwd",
    "x" * 900,
)
"""Without blanks and commas."""
QUEUES: Final = tuple(name.replace(".", "\u2024") for name in NAMES)
"""The same without dots."""
INVISIBLE: Final = "\u202e\u202c\u200b\u2060\ufeff\u2066\u2069"
"""Characters of the names that a page must not print literally."""


def fair_scheduler() -> str:
    """Return a file of YARN's fair scheduler whose queues, users and groups have these names."""
    queues = "".join(
        f"<queue name={_attribute(name)}>"
        f"<aclSubmitApps>{html.escape(_acl(index))}</aclSubmitApps>"
        f"</queue>"
        for index, name in enumerate(QUEUES)
    )
    return (
        "<allocations><queue name='root'><aclSubmitApps> </aclSubmitApps>"
        f"<aclAdministerApps> </aclAdministerApps>{queues}</queue></allocations>"
    )


def directory() -> dict[str, dict[str, Sequence[str]]]:
    """Return a user for each name, for a scripted directory, in the group of the same name."""
    return {name: {"groups": [name, *NAMES[:3]]} for name in NAMES}


def _acl(index: int) -> str:
    return f"{NAMES[index]},{NAMES[index - 1]} {NAMES[index]}"


def _attribute(name: str) -> str:
    return f'"{html.escape(name, quote=True)}"'
