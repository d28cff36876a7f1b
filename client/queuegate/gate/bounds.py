"""The bounds of what a gate takes from a server.

The gate for Go has the same ones in `internal/gate/bounds.go`; a test compares the two tables.
"""

from typing import Final

MAX_LEASE_SECONDS: Final = 5.0
"""The longest lease of the contract."""
MIN_PING_SECONDS: Final = 0.1
"""A gate pings no more often, even if the server asks for it."""
MAX_PING_SECONDS: Final = 5.0
"""A gate that pinged less often would never have a lease."""
MAX_TRANSFER_SECONDS: Final = 120.0
"""How long a server may send policies before it answers a ping: 100 000 queues at 1 Mbit/s."""
MAX_RETRY_SECONDS: Final = 30.0
"""The longest retry delay of a server that a gate obeys."""

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""Of one message. Parts of policies have about 256 KiB."""
MAX_NAME_BYTES: Final = 1_024
"""Of a partition or a group."""
MAX_PATH_BYTES: Final = 4_096
"""Of the path of a queue."""
MAX_EPOCH_BYTES: Final = 16
MAX_DIGEST_BYTES: Final = 64
"""Of a checksum, a fingerprint, or the epoch of a fleet: servers reject longer ones."""

MAX_PARTITIONS: Final = 10_000
MAX_QUEUES: Final = 250_000
"""Of all policies together; queues that will be created are counted apart."""
MAX_NAMES: Final = 2_000_000
"""Different users, groups and services in the ACLs of all policies together."""
MAX_LEVELS: Final = 1_250_000
"""Of the chains of all policies together: a queue adds at most four."""
MAX_LISTED: Final = 16_000_000
"""Names that the levels of all policies together list."""
MAX_CHAIN_LEVELS: Final = 8_192
"""Of one chain: more than a path of the greatest length can have."""
MAX_PATHS_BYTES: Final = 64 * 1024 * 1024
"""Of the paths of all queues together."""
MAX_POLICY_BYTES: Final = 64 * 1024 * 1024
"""Of all policies together, as they are sent."""
MAX_ANNOUNCED_BYTES: Final = 512 * 1024
"""Of the names of the policies that a gate announces to hold. Others are sent again."""

MAX_GROUPS: Final = 10_000
"""Of one user."""
MAX_GIVEN_GROUPS: Final = 10_000
"""In a question: servers refuse more."""
MAX_GROUP_BYTES: Final = 128 * 1024 * 1024
"""Of the groups of all users together."""
GROUP_OVERHEAD_BYTES: Final = 64
"""The memory that the name of a group takes beyond its bytes."""
MAX_LIFETIME_SECONDS: Final = 86_400.0
"""Of groups."""
MIN_LOOKUP_SECONDS: Final = 1.0
"""The least time between questions about a user whose groups are unavailable or expire early."""
MAX_FORGOTTEN: Final = 10_000
"""Users in one message."""
MAX_REFUSED: Final = 1_000
"""Decisions in one message."""
MAX_TEXT_CHARACTERS: Final = 1_024
"""Of a text of the server that a gate logs."""
