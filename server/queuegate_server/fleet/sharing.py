"""Builds what replicas share about groups from the settings. Nothing runs yet."""

from collections.abc import Callable
from typing import Final

from queuegate_server.files.safe_open import PUBLIC, warn_of_mode
from queuegate_server.fleet.connection import StoreConnection
from queuegate_server.fleet.keys import Keys, Signer
from queuegate_server.fleet.refusals import Refusals
from queuegate_server.fleet.session import FleetSession
from queuegate_server.fleet.shared_groups import GroupCounts, PartitionGroups, ValueCodec
from queuegate_server.fleet.value_store import BatchingStore
from queuegate_server.settings.fleet import Fleet


class GroupSharing:
    """The shared groups of all partitions."""

    def __init__(
        self,
        fleet: Fleet,
        session: FleetSession,
        refusals: Refusals | None = None,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """Connect to nothing yet.

        Args:
            fleet: The settings, with a URL.
            session: Knows the order of events, and has the lease of all caches.
            refusals: Where commands are noted that Redis refuses.
            clock: The clock of the lease, in seconds.
            wall: The wall clock, in seconds.
        """
        for path in fleet.secrets:
            warn_of_mode(path, PUBLIC)
        self._keys = Keys(fleet.prefix)
        # Its own connections: a value must not wait behind an event, nor an event behind values.
        self.store: Final = BatchingStore(
            StoreConnection(fleet, self._keys.tag, refusals), fleet.read_timeout
        )
        self.counts: Final = GroupCounts()
        self._signer = Signer(fleet.secret(), "groups")
        self._fence = session.fence
        self._lease = session.lease
        self._clock = clock
        self._wall = wall

    def of_partition(self, partition: str, resolver: str) -> PartitionGroups:
        """Return the shared groups of a partition.

        Args:
            partition: Its name.
            resolver: The settings of its resolver, as text.
        """
        codec = ValueCodec(self._signer, self._keys, partition, resolver, self._wall)
        return PartitionGroups(
            self.store,
            codec,
            fence=self._fence,
            lease=self._lease,
            counts=self.counts,
            clock=self._clock,
        )

    @property
    def is_active(self) -> bool:
        """Whether groups are shared: Redis answers, and this replica follows the events."""
        return self.store.is_available and self._fence.position is not None

    def open(self) -> None:
        """Begin to connect."""
        self.store.open()

    async def close(self) -> None:
        """Read and write nothing any more."""
        await self.store.close()
