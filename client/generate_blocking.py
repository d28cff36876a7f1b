"""Generate the methods of the blocking client and gate from those for asyncio.

Usage: `generate_blocking.py [FOLDER]`. Writes unformatted modules, named without `async_`, into
FOLDER (default: `queuegate` in this directory).
"""

import re
import sys
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent / "queuegate"
SOURCES: Final = {
    "_methods/async_queues.py": "Methods of `queuegate.Client` for queue access.",
    "_methods/async_applications.py": "Methods of `queuegate.Client` for application access.",
    "_methods/async_user_groups.py": "Methods of `queuegate.Client` for the groups of users.",
    "_methods/async_policy.py": "Methods of `queuegate.Client` for the policy.",
    "_methods/async_server.py": "Methods of `queuegate.Client` for the server and its fleet.",
    "_methods/async_client.py": "All methods of `queuegate.Client`.",
    "gate/_async_methods.py": "The methods of `queuegate.Gate` that differ from a client's.",
}

_HEADER: Final = '''"""{summary}

Generated from `{source}` by `make blocking`. Do not edit.
"""

'''
_REPLACED: Final = {
    r"\basync def\b": "def",
    r"\bawait ": "",
    r"\bAsync(\w+)Methods\b": r"\1Methods",
    r"\bAsyncCalls\b": "BlockingCalls",
    r"\bAsyncIterator, Iterable\b": "Iterable, Iterator",
    r"\bAsyncIterator\b": "Iterator",
    r"\basync for\b": "for",
    r"\b_methods\.async_": "_methods.",
    r"`queuegate\.aio\.": "`queuegate.",
}


def blocking(source: str, text: str) -> str:
    """Return the blocking version of an asyncio module."""
    text = text[text.index("\nfrom ") + 1 :]
    for pattern, replacement in _REPLACED.items():
        text = re.sub(pattern, replacement, text)
    return _HEADER.format(summary=SOURCES[source], source=source) + text


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE
    for name in SOURCES:
        target = folder / name.replace("async_", "")
        target.parent.mkdir(exist_ok=True)
        target.write_text(blocking(name, (PACKAGE / name).read_text()))
