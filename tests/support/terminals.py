"""Whether tests can open a terminal: some chroots and containers have no /dev/pts."""

import os
from typing import Final

import pytest


def _can_open() -> bool:
    try:
        ends = os.openpty()
    except OSError:
        return False
    for end in ends:
        os.close(end)
    return True


requires_terminal: Final = pytest.mark.skipif(
    not _can_open(), reason="no terminal can be opened: mount a devpts on /dev/pts"
)
