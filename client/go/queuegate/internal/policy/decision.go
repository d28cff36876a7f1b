// Package policy decides who may use a queue: ACLs, queue trees and decisions. It has no I/O, no
// clock and no third-party import.
//
// Its rules are those of the server's core in Python (queuegate.policy), and must stay so.
package policy

// Rules is the version of the rules by which this package decides. It grows with each change after
// which any question about the same policy is decided differently, as that of queuegate.policy does.
const Rules = 3

// Access is a kind of access to a queue.
type Access uint8

// The kinds of access.
const (
	Submit Access = iota
	Admin
)

// Reason is why access was granted or denied, as the contract names it.
type Reason string

// The reasons.
const (
	Wildcard      Reason = "wildcard"
	User          Reason = "user"
	Group         Reason = "group"
	NoMatch       Reason = "no_match"
	UnknownUser   Reason = "unknown_user"
	RecoveryQueue Reason = "recovery_queue"
	ACLsDisabled  Reason = "acls_disabled"
	ClusterAdmin  Reason = "cluster_admin"
)

// A Decision says whether access is granted, and why. A denial names no subject.
type Decision struct {
	Allowed        bool
	Reason         Reason
	MatchedQueue   string
	MatchedSubject string
}

var (
	noMatch         = Decision{Reason: NoMatch}
	inRecoveryQueue = Decision{Reason: RecoveryQueue, MatchedQueue: recoveryQueue}
	aclsDisabled    = Decision{Allowed: true, Reason: ACLsDisabled}

	// Unknown is the decision about a user who does not exist, where it depends on groups.
	Unknown = Decision{Reason: UnknownUser}
)

// grant returns the decision of an ACL that lists a user or a group. The empty path stands for
// the administrators of a cluster.
func grant(reason Reason, queue, subject string) Decision {
	if queue == cluster {
		reason = ClusterAdmin
	}
	return Decision{Allowed: true, Reason: reason, MatchedQueue: queue, MatchedSubject: subject}
}
