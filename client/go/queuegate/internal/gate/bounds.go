package gate

import "time"

// The bounds of what a gate takes from a server. The gate for Python has the same ones in
// gate/bounds.py; a test compares the two tables.
const (
	// maxLease is the longest lease of the contract.
	maxLease = 5 * time.Second
	// minPing: a gate pings no more often, even if the server asks for it.
	minPing = 100 * time.Millisecond
	// maxPing: a gate that pinged less often would never have a lease.
	maxPing = 5 * time.Second
	// maxTransfer is how long a server may send policies before it answers a ping: 100 000 queues at
	// 1 Mbit/s.
	maxTransfer = 120 * time.Second
	// maxRetry is the longest retry delay of a server that a gate obeys.
	maxRetry = 30 * time.Second

	// maxMessageBytes is the limit of one message. Parts of policies have about 1 MiB.
	maxMessageBytes = 4 << 20
	// maxNameBytes is the limit of a partition or a group.
	maxNameBytes = 1_024
	// maxPathBytes is the limit of the path of a queue.
	maxPathBytes  = 4_096
	maxEpochBytes = 16
	// maxDigestBytes is the limit of a checksum, a fingerprint, or the epoch of a fleet: a server takes
	// back no longer ones.
	maxDigestBytes = 64

	maxPartitions = 10_000
	// maxQueues is the limit of all policies together.
	maxQueues = 250_000
	// maxNames is the limit of different users, groups and services in the ACLs of all policies together.
	maxNames = 2_000_000
	// maxLevels is the limit of the chains of all policies together: a queue adds at most four.
	maxLevels = 1_250_000
	// maxListed is the limit of the names that the levels of all policies together list.
	maxListed = 16_000_000
	// maxChainLevels is the limit of one chain: more than a path of the greatest length can have.
	maxChainLevels = 8_192
	// maxPathsBytes is the limit of the paths of all queues together.
	maxPathsBytes = 64 << 20
	// maxPolicyBytes is the limit of all policies together, as they are sent.
	maxPolicyBytes = 64 << 20
	// maxAnnouncedBytes is the limit of the names of the policies that a gate announces to hold. Others
	// are sent again.
	maxAnnouncedBytes = 512 << 10

	// maxGroupsOfUser is the limit of one user, who has to be asked about beyond it.
	maxGroupsOfUser = 10_000
	// maxGivenGroups is the limit of groups in a question: servers refuse more.
	maxGivenGroups = 10_000
	// maxGroupBytes is the limit of the groups of all users together.
	maxGroupBytes = 128 << 20
	// groupOverheadBytes is what the name of a group counts in addition to its bytes.
	groupOverheadBytes = 64
	// maxLifetime is the longest lifetime of groups.
	maxLifetime = 86_400 * time.Second
	// minLookup is how long a user is not asked for again whose groups could not be had, or live for
	// less.
	minLookup = time.Second
	// maxForgotten is how many users one message may name.
	maxForgotten = 10_000
	// maxRefused is how many decisions one message may name.
	maxRefused = 1_000
	// maxTextCharacters is the limit of a text of the server that a gate logs.
	maxTextCharacters = 1_024
)
