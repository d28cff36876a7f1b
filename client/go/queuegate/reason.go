package queuegate

// Reason is why access was granted or denied.
type Reason string

// The reasons.
const (
	// ReasonUnspecified is a reason from a server newer than this client.
	ReasonUnspecified Reason = "unspecified"
	// ReasonWildcard: granted, an ACL allows everyone.
	ReasonWildcard Reason = "wildcard"
	// ReasonUser: granted, an ACL lists the user.
	ReasonUser Reason = "user"
	// ReasonGroup: granted, an ACL lists one of the user's groups.
	ReasonGroup Reason = "group"
	// ReasonNoMatch: denied, no ACL from the queue up to the root lists the user or the user's groups.
	ReasonNoMatch Reason = "no_match"
	// ReasonUnknownUser: denied, the decision depends on groups, and the resolver does not know
	// the user.
	ReasonUnknownUser Reason = "unknown_user"
	// ReasonRecoveryQueue: denied, nobody may submit to the recovery queue or below it.
	ReasonRecoveryQueue Reason = "recovery_queue"
	// ReasonACLsDisabled: granted, the scheduler does not enforce ACLs.
	ReasonACLsDisabled Reason = "acls_disabled"
	// ReasonClusterAdmin: granted, the user administers the cluster.
	ReasonClusterAdmin Reason = "cluster_admin"
	// ReasonOwner: granted, the user owns the application.
	ReasonOwner Reason = "owner"
	// ReasonUnknownQueue: denied, the target queue of a move does not exist.
	ReasonUnknownQueue Reason = "unknown_queue"
)

// reasonGrants is whether each reason grants access, except for ReasonUnspecified.
var reasonGrants = map[Reason]bool{
	ReasonWildcard:      true,
	ReasonUser:          true,
	ReasonGroup:         true,
	ReasonNoMatch:       false,
	ReasonUnknownUser:   false,
	ReasonRecoveryQueue: false,
	ReasonACLsDisabled:  true,
	ReasonClusterAdmin:  true,
	ReasonOwner:         true,
	ReasonUnknownQueue:  false,
}
