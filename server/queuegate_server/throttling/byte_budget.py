"""Counts bytes in use against a limit."""


class ByteBudget:
    """Counts bytes in use. Work admitted below the limit may push the count above it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0
        """The number of bytes in use."""

    @property
    def is_spent(self) -> bool:
        """Whether the limit has been reached."""
        return self.taken >= self._limit

    @property
    def excess(self) -> int:
        """The number of bytes above the limit; negative below it."""
        return self.taken - self._limit

    def take(self, size: int) -> None:
        """Count `size` more bytes as in use."""
        self.taken += size

    def give_back(self, size: int) -> None:
        """Count `size` bytes as no longer in use."""
        self.taken -= size
