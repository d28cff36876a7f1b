package gate

import "time"

// The bounds of what a gate takes from a server. The gate for Python has the same ones in
// gate/bounds.py; a test compares the two tables.
const (
	maxLease = 5 * time.Second        // the longest of the contract
	minPing  = 100 * time.Millisecond // a gate pings no more often, even if the server asks for it
	maxPing  = 5 * time.Second        // a gate that pinged less often would never have a lease
	// How long a server may send policies before it answers a ping: 100 000 queues at 1 Mbit/s.
	maxTransfer = 120 * time.Second
	maxRetry    = 30 * time.Second // the longest retry delay of a server that a gate obeys

	maxMessageBytes = 4 << 20 // of one message; parts of policies have about 256 KiB
	maxNameBytes    = 1_024   // of the name of a partition or a group
	maxPathBytes    = 4_096   // of the path of a queue
	maxEpochBytes   = 16
	// Of a checksum, a fingerprint, or the epoch of a fleet: a server takes back no longer ones.
	maxDigestBytes = 64

	// Of all policies together, but for those of one chain.
	maxPartitions  = 10_000
	maxQueues      = 250_000
	maxNames       = 2_000_000  // different users, groups and services in ACLs
	maxLevels      = 1_250_000  // of chains: a queue adds at most four
	maxListed      = 16_000_000 // names that the levels list
	maxChainLevels = 8_192      // of one chain: more than a path of the greatest length can have
	maxPathsBytes  = 64 << 20   // of the paths of queues
	maxPolicyBytes = 64 << 20   // as they are sent
	// Of the names of the policies that a gate announces to hold. Others are sent again.
	maxAnnouncedBytes = 512 << 10

	maxGroupsOfUser    = 10_000               // the server is asked about a user who has more
	maxGivenGroups     = 10_000               // in a question: servers refuse more
	maxGroupBytes      = 128 << 20            // of the groups of all users together
	groupOverheadBytes = 64                   // what the name of a group counts in addition to its bytes
	maxLifetime        = 86_400 * time.Second // of groups
	// How soon a user may be asked for again whose groups were not available, or live for less.
	minLookup         = time.Second
	maxForgotten      = 10_000 // users that one message may name
	maxRefused        = 1_000  // decisions that one message may name
	maxTextCharacters = 1_024  // of a text of the server in the log
)
