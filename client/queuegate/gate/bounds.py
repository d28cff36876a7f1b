"""Bounds on messages that a gate accepts from a server.

A test compares them with the Go gate's bounds in `internal/gate/bounds.go`.
"""

from typing import Final

MAX_LEASE_SECONDS: Final = 5.0
"""The longest lease allowed by the contract."""
MIN_PING_SECONDS: Final = 0.1
"""The minimum ping interval. It applies even if the server requests a shorter interval."""
MAX_PING_SECONDS: Final = 5.0
"""The maximum ping interval. With a longer interval, a gate would never have a lease."""
MAX_TRANSFER_SECONDS: Final = 120.0
"""The maximum time to receive policies before a pong, enough for 100,000 queues at 1 Mbit/s."""
MAX_RETRY_SECONDS: Final = 30.0
"""The longest retry delay that a gate accepts from a server."""

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The maximum size of a message. Each part of a policy takes about 256 KiB."""
MAX_NAME_BYTES: Final = 1_024
"""The maximum length of a partition or group name."""
MAX_PATH_BYTES: Final = 4_096
"""The maximum length of a queue path."""
MAX_EPOCH_BYTES: Final = 16
MAX_DIGEST_BYTES: Final = 64
"""The maximum length of a checksum, a fingerprint or a fleet's epoch, as enforced by servers."""

MAX_PARTITIONS: Final = 10_000
MAX_QUEUES: Final = 250_000
"""The maximum number of queues in all policies. The same limit applies separately to the patterns
for created queues."""
MAX_NAMES: Final = 2_000_000
"""The maximum number of distinct users, groups and services in the ACLs of all policies."""
MAX_LEVELS: Final = 1_250_000
"""The maximum number of levels in the chains of all policies. A queue adds at most four."""
MAX_LISTED: Final = 16_000_000
"""The maximum total number of names listed at the levels of all policies."""
MAX_CHAIN_LEVELS: Final = 8_192
"""The maximum number of levels in a chain. The longest path has fewer levels."""
MAX_CREATED_LEVELS: Final = 20
"""How many levels below the nearest queue a created queue may be, as enforced by servers.
A gate rebuilds these levels for each path in a check.
"""
MAX_PATHS_BYTES: Final = 64 * 1024 * 1024
"""The maximum total size of all queue paths."""
MAX_POLICY_BYTES: Final = 64 * 1024 * 1024
"""The maximum total size of all policies in serialized form."""
MAX_ANNOUNCED_BYTES: Final = 512 * 1024
"""The maximum total size of the partition names that a gate announces on a new stream. The server
resends policies that the gate does not announce.
"""

MAX_GROUPS: Final = 10_000
"""The maximum number of groups per user."""
MAX_GIVEN_GROUPS: Final = 10_000
"""The maximum number of groups in a request, as enforced by servers."""
MAX_GROUP_BYTES: Final = 128 * 1024 * 1024
"""The maximum total size of all users' groups."""
GROUP_OVERHEAD_BYTES: Final = 64
"""The memory overhead of a group name."""
MAX_LIFETIME_SECONDS: Final = 86_400.0
"""The maximum lifetime of cached groups."""
MAX_STALE_SECONDS: Final = 86_400.0
"""The maximum time that a gate may decide without a lease."""
MIN_LOOKUP_SECONDS: Final = 1.0
"""The minimum time between requests for a user's groups, even if the groups are unavailable or
expire sooner."""
MAX_FORGOTTEN: Final = 10_000
"""The maximum number of users in a `Forget` message."""
MAX_TEXT_CHARACTERS: Final = 1_024
"""The maximum length of a server's text in a gate's log."""
