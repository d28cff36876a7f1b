package gate

import "time"

// Bounds on messages that a gate accepts from a server. A test compares them with those of the Python
// gate in gate/bounds.py.
const (
	maxLease = 5 * time.Second        // the longest lease allowed by the contract
	minPing  = 100 * time.Millisecond // even if the server sends a shorter ping interval
	maxPing  = 5 * time.Second        // with a longer interval, a gate would never have a lease
	// The maximum time to send policies before a pong: 100 000 queues at 1 Mbit/s.
	maxTransfer = 120 * time.Second
	maxRetry    = 30 * time.Second // the longest accepted retry delay

	maxMessageBytes = 4 << 20 // parts of policies take about 256 KiB
	maxNameBytes    = 1_024   // for a partition or a group
	maxPathBytes    = 4_096   // for a queue
	maxEpochBytes   = 16
	// The maximum length of a checksum, a fingerprint or a fleet's epoch, as enforced by servers.
	maxDigestBytes = 64

	// Totals of all policies, except maxChainLevels and maxCreatedLevels.
	maxPartitions  = 10_000
	maxQueues      = 250_000
	maxNames       = 2_000_000  // distinct users, groups and services in ACLs
	maxLevels      = 1_250_000  // a queue adds at most four
	maxListed      = 16_000_000 // names listed in levels
	maxChainLevels = 8_192      // in one chain, more than the longest path can have
	// The levels of a created queue below the nearest queue, as enforced by servers.
	maxCreatedLevels = 20
	maxPathsBytes    = 64 << 20 // all queue paths
	maxPolicyBytes   = 64 << 20 // as sent
	// The maximum size of announced partition names. Policies beyond it are sent again.
	maxAnnouncedBytes = 512 << 10

	maxGroupsOfUser    = 10_000               // checks of users with more go to the server
	maxGivenGroups     = 10_000               // in a request, as enforced by servers
	maxGroupBytes      = 128 << 20            // the groups of all users
	groupOverheadBytes = 64                   // per group name
	maxLifetime        = 86_400 * time.Second // of groups
	maxStale           = 86_400 * time.Second // of decisions without a lease
	// The minimum time between requests for a user's groups, even if they are unavailable or expire sooner.
	minLookup         = time.Second
	maxForgotten      = 10_000 // users in a Forget message
	maxTextCharacters = 1_024  // of a server's text in the log
)
