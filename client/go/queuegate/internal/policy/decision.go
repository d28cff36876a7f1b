// Package policy decides who may use a queue, without I/O, clocks or third-party imports.
//
// Its rules must equal those of the server's core in Python (queuegate.policy).
package policy

// Rules is the version of the decision rules, incremented together with queuegate.policy's whenever the
// decisions of any policy change.
const Rules = 3

// Access is a kind of access to a queue.
type Access uint8

// The kinds of access.
const (
	Submit Access = iota
	Admin
)

// Reason is why access was granted or denied, as named in the contract.
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

// A Decision is the result of a check. A denial has no matched subject.
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

	// Unknown is the decision if the user does not exist and the decision depends on groups.
	Unknown = Decision{Reason: UnknownUser}
)

// grant returns the decision of an ACL that lists a user or a group. The empty path represents the
// cluster's administrators.
func grant(reason Reason, queue, subject string) Decision {
	if queue == cluster {
		reason = ClusterAdmin
	}
	return Decision{Allowed: true, Reason: reason, MatchedQueue: queue, MatchedSubject: subject}
}
