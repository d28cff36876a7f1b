"""Long work that yields where a step may end."""

from collections.abc import Iterator
from typing import Any


def finish(work: Iterator[None]) -> Any:
    """Do the work at once; return the generator's result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
