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

// The kinds of access. The empty text means Submit.
const (
	Submit Access = "submit"
	Admin  Access = "admin"
)

// A Check is a question: may this user use this queue?
type Check struct {
	// User is the name of the user. Required.
	User string
	// Queue is the full path of the queue, for example root.a.b. Required.
	Queue string
	// Partition is the partition of the queue. Empty: default.
	Partition string
	// Access is the kind of access. Empty: Submit.
	Access Access
	// Groups are the user's groups, used as given. If empty, the server resolves them if the
	// decision depends on them, unless NoGroups is set.
	Groups []string
	// NoGroups says that the user has no groups. Not together with Groups.
	NoGroups bool
	// RealUser is the service that acts for the user, if any: YARN's ACLs may list it as ~name.
	RealUser string
	// AtLeast is a change, from the result of [Client.Invalidate] or [Client.Reload], that the answer
	// must take into account. If the server does not know it, the error is
	// [ErrNotCaughtUp]. A [Gate] always asks the server. Nil: none. Not for Explain.
	AtLeast *queuegatev1.Cursor
}

// A Decision is the answer to a question. The zero value grants nothing.
type Decision struct {
	// Allowed is true only if access is granted.
	Allowed bool
	// Reason is why.
	Reason Reason
	// MatchedQueue is the queue whose ACL decided; empty if none matched.
	MatchedQueue string
	// MatchedSubject is the matching entry: a user, a group, *, or ~name for the service that
	// acts for the user; empty if none matched.
	MatchedSubject string
	// PolicyRevision is the revision of the policy that decided.
	PolicyRevision uint64
	// EvaluatedQueue is the nearest existing ancestor of a queue that does not exist, whose ACLs
	// were evaluated instead; empty if the queue exists, and for the recovery queue and
	// applications.
	EvaluatedQueue string
	// Stale is true if a [Gate] decided without a lease.
	Stale bool
}

// Check asks whether a user may use a queue.
func (c *Client) Check(ctx context.Context, question Check) (Decision, error) {
	response, err := ask(
		ctx, c, c.plan.timeout, c.access.CheckQueueAccess, question.request(), question.faults()...)
	if err != nil {
		return Decision{}, err
	}
	return decisionOf(response)
}

// Explain checks as Check does, and also returns the evaluated ACLs and the origin of the groups.
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

// faults finds what can never be sent. Limits on lengths and characters are left to the server,
// which may be newer.
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

// An answer has the fields of a decision about a queue or an application.
type answer interface {
	GetAllowed() bool
	GetReason() queuegatev1.Reason
	GetMatchedQueue() string
	GetMatchedSubject() string
	GetPolicyRevision() uint64
}

// decisionOf returns the decision in a response. It is an error if the outcome contradicts the reason:
// then neither can be believed.
func decisionOf(response answer) (Decision, error) {
	name := strings.TrimPrefix(queuegatev1.Reason_name[int32(response.GetReason())], "REASON_")
	reason := cmp.Or(Reason(strings.ToLower(name)), ReasonUnspecified) // a newer server may have others
	if grants, known := reasonGrants[reason]; known && grants != response.GetAllowed() {
		said := "denied"
		if response.GetAllowed() {
			said = "allowed"
		}
		return Decision{}, contractViolated(
			"the server's answer contradicts itself: %s, with the reason %s", said, reason)
	}
	decision := Decision{
		Allowed:        response.GetAllowed(),
		Reason:         reason,
		MatchedQueue:   response.GetMatchedQueue(),
		MatchedSubject: response.GetMatchedSubject(),
		PolicyRevision: response.GetPolicyRevision(),
	}
	if queue, ok := response.(*queuegatev1.CheckQueueAccessResponse); ok {
		decision.EvaluatedQueue = queue.GetEvaluatedQueue()
	}
	return decision, nil
}
