"""How much the answers to one lookup may contain.

A directory is trusted to say who is in which group, and not with the memory and the time of the
server: one oversized entry must not block the lookups of others.
"""

from typing import Final

from queuegate_server.identity.resolvers.ldap.errors import SetupFault

_BASE_BYTES: Final = 2**20
_ENTRY_BYTES: Final = 512
_BASE_ELEMENTS: Final = 4096
_ENTRY_ELEMENTS: Final = 4
"""The entry itself, its name with a value, and one more."""
MAX_LOOKUP_BYTES: Final = 16 * 2**20
MAX_LISTING_BYTES: Final = 64 * 2**20
"""The most for one request of a list of members or users, which no check waits for."""


class Allowance:
    """What the answers to some requests may still bring, in bytes and in elements: entries,
    attributes, values and referrals.
    """

    __slots__ = ("_advice", "_bytes_left", "_max_bytes", "elements_left", "is_for_listing")

    def __init__(self, entries: int, advice: str = "", *, is_for_listing: bool = False) -> None:
        """Allow what entries or values with names of usual length need.

        Args:
            entries: How many.
            advice: What to do if the answers bring more.
            is_for_listing: Whether a list of members or users is asked for, one request at a time.
        """
        most = MAX_LISTING_BYTES if is_for_listing else MAX_LOOKUP_BYTES
        self._max_bytes = min(_BASE_BYTES + _ENTRY_BYTES * entries, most)
        self._advice = advice
        self._bytes_left = self._max_bytes
        self.elements_left = _BASE_ELEMENTS + _ENTRY_ELEMENTS * entries
        self.is_for_listing = is_for_listing

    def charge(self, size: int, elements: int) -> None:
        """Take from the allowance. Raises SetupFault if more is taken than is left."""
        self._bytes_left -= size
        self.elements_left -= elements
        if self._bytes_left < 0:
            raise SetupFault(
                f"the directory sent more than {self._max_bytes / 2**20:.1f} MiB for one request",
                self._advice,
            )
        if self.elements_left < 0:
            raise SetupFault(
                "the directory sent too many entries, attributes and values for one request",
                self._advice,
            )
