package queuegate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// Access is a kind of access to a queue.
type Access string

// The kinds of access. An empty Access means Submit.
const (
	Submit Access = "submit"
	Admin  Access = "admin"
)

// A Check asks whether a user may use a queue.
type Check struct {
	// User is the name of the user. Required.
	User string
	// Queue is the full path of the queue, for example root.a.b. Required.
	Queue string
	// Partition is the partition of the queue. Defaults to "default".
	Partition string
	// Access is the kind of access. Defaults to Submit.
	Access Access
	// Groups are the user's groups. If empty, the server resolves them if the decision depends on
	// them, unless NoGroups is set.
	Groups []string
	// NoGroups means that the user has no groups. Groups must then be empty.
	NoGroups bool
	// RealUser is the service acting for the user, if any. YARN's ACLs may list it as ~name.
	RealUser string
	// AtLeast is the cursor of a change, returned by [Client.Invalidate] or [Client.Reload], that the
	// decision must reflect. If the server has not applied the change, the error is
	// [ErrNotCaughtUp]. A [Gate] sends such a check to the server. Not supported by Explain.
	AtLeast *queuegatev1.Cursor
}

// A Decision is the result of a check. The zero value does not grant access.
type Decision struct {
	// Allowed is true only if access is granted.
	Allowed bool
	// Reason is why access is granted or denied.
	Reason Reason
	// MatchedQueue is the queue whose ACL matched, if any.
	MatchedQueue string
	// MatchedSubject is the matching entry, if any: a user, a group, *, or ~name for the service
	// acting for the user.
	MatchedSubject string
	// PolicyRevision is the revision of the evaluated policy.
	PolicyRevision uint64
	// EvaluatedQueue is a missing queue's nearest existing ancestor, whose ACLs were evaluated
	// instead. Empty if the queue exists or will be created, and for the recovery queue and Spark.
	EvaluatedQueue string
	// Stale is true if a [Gate] decided without a lease.
	Stale bool
}

// Check checks whether a user may use a queue.
func (c *Client) Check(ctx context.Context, question Check) (Decision, error) {
	response, err := ask(
		ctx, c, c.plan.timeout, c.access.CheckQueueAccess, question.request(), question.faults()...)
	if err != nil {
		return Decision{}, err
	}
	return decisionOf(response)
}

// Explain runs Check, and returns the evaluated ACLs and the origin of the groups as well.
func (c *Client) Explain(
	ctx context.Context, question Check,
) (*queuegatev1.ExplainQueueAccessResponse, error) {
	faults := question.faults()
	if question.AtLeast != nil {
		faults = append(faults, Violation{"at_least", "is only for Check and CheckMany"})
	}
	request := &queuegatev1.ExplainQueueAccessRequest{
		User:      userGroups(question.User, question.Groups, question.NoGroups),
		Partition: question.Partition,
		Queue:     question.Queue,
		Access:    question.Access.number(),
		RealUser:  question.RealUser,
	}
	response, err := ask(ctx, c, c.plan.timeout, c.access.ExplainQueueAccess, request, faults...)
	if err != nil {
		return nil, err
	}
	if _, err := decisionOf(response.GetDecision()); err != nil {
		return nil, err
	}
	return response, nil
}

func (question *Check) request() *queuegatev1.CheckQueueAccessRequest {
	return &queuegatev1.CheckQueueAccessRequest{
		User:      userGroups(question.User, question.Groups, question.NoGroups),
		Partition: question.Partition,
		Queue:     question.Queue,
		Access:    question.Access.number(),
		RealUser:  question.RealUser,
		AtLeast:   question.AtLeast,
	}
}

func userGroups(user string, groups []string, none bool) *queuegatev1.UserGroupInformation {
	return &queuegatev1.UserGroupInformation{User: user, Groups: groups, NoGroups: none}
}

// faults returns the fields that can never be sent. Limits on lengths and characters are left to the
// server, which may be newer.
func (question *Check) faults() []Violation {
	faults := questionFaults(question.User, question.Groups, question.NoGroups, question.Access)
	faults = appendFault(faults, "queue", question.Queue, required)
	faults = appendFault(faults, "partition", question.Partition, optional)
	return appendFault(faults, "real_user", question.RealUser, optional)
}

func questionFaults(user string, groups []string, none bool, access Access) []Violation {
	return append(userFaults(user, groups, none), access.faults()...)
}

func userFaults(user string, groups []string, none bool) []Violation {
	faults := appendFault(nil, "user.user", user, required)
	if none && len(groups) > 0 {
		faults = append(faults, Violation{"user.no_groups", "must not be set together with groups"})
	}
	for i, group := range groups {
		if textFault(group, required) != "" {
			faults = appendFault(faults, fmt.Sprintf("user.groups[%d]", i), group, required)
		}
	}
	return faults
}

const (
	required = true
	optional = false
)

func appendFault(faults []Violation, field, value string, required bool) []Violation {
	if fault := textFault(value, required); fault != "" {
		return append(faults, Violation{field, fault})
	}
	return faults
}

func textFault(value string, required bool) string {
	switch {
	case required && value == "":
		return "must not be empty"
	case !utf8.ValidString(value):
		return "is not valid UTF-8"
	}
	return ""
}

func (access Access) number() queuegatev1.AccessType {
	switch access {
	case Submit, "":
		return queuegatev1.AccessType_ACCESS_TYPE_SUBMIT
	case Admin:
		return queuegatev1.AccessType_ACCESS_TYPE_ADMIN
	}
	return queuegatev1.AccessType_ACCESS_TYPE_UNSPECIFIED
}

func (access Access) faults() []Violation {
	if access.number() != queuegatev1.AccessType_ACCESS_TYPE_UNSPECIFIED {
		return nil
	}
	return []Violation{{"access", fmt.Sprintf(`must be "submit" or "admin", not %q`, access)}}
}

// An answer is a response with a decision about a queue or an application.
type answer interface {
	GetAllowed() bool
	GetReason() queuegatev1.Reason
	GetMatchedQueue() string
	GetMatchedSubject() string
	GetPolicyRevision() uint64
	GetEvaluatedQueue() string
}

// decisionOf returns the decision in a response. If the outcome contradicts the reason, neither can
// be trusted, and the result is an error.
func decisionOf(response answer) (Decision, error) {
	name := strings.TrimPrefix(queuegatev1.Reason_name[int32(response.GetReason())], "REASON_")
	reason := cmp.Or(Reason(strings.ToLower(name)), ReasonUnspecified) // from a newer server
	if grants, known := reasonGrants[reason]; known && grants != response.GetAllowed() {
		said := "denied"
		if response.GetAllowed() {
			said = "allowed"
		}
		return Decision{}, contractViolated(
			"the server's response contradicts itself: %s, with the reason %s", said, reason)
	}
	return Decision{
		Allowed:        response.GetAllowed(),
		Reason:         reason,
		MatchedQueue:   response.GetMatchedQueue(),
		MatchedSubject: response.GetMatchedSubject(),
		PolicyRevision: response.GetPolicyRevision(),
		EvaluatedQueue: response.GetEvaluatedQueue(),
	}, nil
}
