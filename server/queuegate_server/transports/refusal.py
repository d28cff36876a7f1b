"""How a transport refuses what is too much, by itself."""

from collections.abc import MutableMapping
from typing import NamedTuple


class Refusal(NamedTuple):
    """How a transport refuses what is too much, by itself."""

    message: str
    trailing: tuple[tuple[str, str | bytes], ...]
    """The metadata that ends the call."""
    counts: MutableMapping[str, int]
    """Where refused calls are counted, by the bound that was reached."""
