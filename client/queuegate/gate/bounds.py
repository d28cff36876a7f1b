"""The bounds on what a gate accepts from a server.

The Go gate has the same bounds in `internal/gate/bounds.go`; a test compares the two tables.
"""

from typing import Final

MAX_LEASE_SECONDS: Final = 5.0
"""The longest lease that the contract allows."""
MIN_PING_SECONDS: Final = 0.1
"""A gate never pings more often, even if the server asks for it."""
MAX_PING_SECONDS: Final = 5.0
"""A gate that pinged less often would never have a lease."""
MAX_TRANSFER_SECONDS: Final = 120.0
"""How long a server may send policies before it answers a ping: 100 000 queues at 1 Mbit/s."""
MAX_RETRY_SECONDS: Final = 30.0
"""The longest retry delay that a gate accepts from a server."""

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The maximum size of a message. Parts of policies take about 256 KiB."""
MAX_NAME_BYTES: Final = 1_024
"""The maximum length of the name of a partition or a group."""
MAX_PATH_BYTES: Final = 4_096
"""The maximum length of a queue path."""
MAX_EPOCH_BYTES: Final = 16
MAX_DIGEST_BYTES: Final = 64
"""The maximum length of a checksum, fingerprint or fleet's epoch: servers reject longer ones."""

MAX_PARTITIONS: Final = 10_000
MAX_QUEUES: Final = 250_000
"""The maximum for all policies together; queues that will be created are counted separately."""
MAX_NAMES: Final = 2_000_000
"""The maximum number of different users, groups and services in the ACLs of all policies."""
MAX_LEVELS: Final = 1_250_000
"""The maximum number of levels in the chains of all policies: a queue adds at most four."""
MAX_LISTED: Final = 16_000_000
"""The maximum number of names listed in the levels of all policies."""
MAX_CHAIN_LEVELS: Final = 8_192
"""The maximum number of levels in a chain: more than a path of the maximum length can have."""
MAX_PATHS_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of all queue paths together."""
MAX_POLICY_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of all policies together, as sent."""
MAX_ANNOUNCED_BYTES: Final = 512 * 1024
"""The maximum size of the partition names that a gate announces. Other policies are sent again."""

MAX_GROUPS: Final = 10_000
"""The maximum number of groups of a user."""
MAX_GIVEN_GROUPS: Final = 10_000
"""The maximum number of groups in a question: servers refuse more."""
MAX_GROUP_BYTES: Final = 128 * 1024 * 1024
"""The maximum size of the groups of all users together."""
GROUP_OVERHEAD_BYTES: Final = 64
"""The memory that a group name takes in addition to its bytes."""
MAX_LIFETIME_SECONDS: Final = 86_400.0
"""The maximum lifetime of groups."""
MIN_LOOKUP_SECONDS: Final = 1.0
"""The minimum time between lookups of a user whose groups are unavailable or expire early."""
MAX_FORGOTTEN: Final = 10_000
"""The maximum number of users in a message that drops groups."""
MAX_REFUSED: Final = 1_000
"""The maximum number of refused decisions in a message."""
MAX_TEXT_CHARACTERS: Final = 1_024
"""The maximum length of a text from the server that a gate logs."""
