package queuegate

import (
	"time"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/gate"
	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
)

// A DecisionRecord describes a local decision of a [Gate], for the program's own log. Its JSON form has
// the keys of the server's audit records.
type DecisionRecord struct {
	// Time is when the gate decided, in UTC, with microseconds.
	Time time.Time `json:"time"`
	// Caller is "gate:" with the gate's name.
	Caller string `json:"caller"`
	// Method is the method that answers such a question on the server.
	Method string `json:"method"`
	// User is the user in the question.
	User string `json:"user"`
	// Partition is the partition in the question.
	Partition string `json:"partition"`
	// GroupsInRequest is how many groups the question contained; nil if it said nothing about groups.
	GroupsInRequest *int `json:"groups_in_request,omitempty"`
	// Queue is the queue in the question.
	Queue string `json:"queue"`
	// Access is the kind of access.
	Access Access `json:"access"`
	// Outcome is "allowed" or "denied".
	Outcome string `json:"decision"`
	// Reason is why access is granted or denied.
	Reason Reason `json:"reason"`
	// MatchedQueue is the queue whose ACL matched, if any.
	MatchedQueue string `json:"matched_queue"`
	// MatchedName is the user or group that matched, if any.
	MatchedName string `json:"matched_name"`
	// Revision is the revision of the evaluated policy.
	Revision uint64 `json:"revision"`
	// Stale is whether the gate decided without a lease.
	Stale bool `json:"stale,omitempty"`
}

// recorder returns the function that passes decisions to OnDecision; nil without OnDecision.
func (config *GateConfig) recorder() func(*gate.Question, gate.Answer) {
	if config.OnDecision == nil {
		return nil
	}
	return func(question *gate.Question, answer gate.Answer) {
		record := DecisionRecord{
			Time:         time.Now().UTC().Truncate(time.Microsecond),
			Caller:       "gate:" + config.Name,
			Method:       "CheckQueueAccess",
			User:         question.User,
			Partition:    policy.PartitionName(question.Partition),
			Queue:        question.Queue,
			Access:       Submit,
			Outcome:      "denied",
			Reason:       Reason(answer.Reason),
			MatchedQueue: answer.MatchedQueue,
			MatchedName:  answer.MatchedSubject,
			Revision:     answer.Revision,
			Stale:        answer.Stale,
		}
		if question.Access == policy.Admin {
			record.Access = Admin
		}
		if answer.Allowed {
			record.Outcome = "allowed"
		}
		if groups := len(question.Groups); groups > 0 || question.NoGroups {
			record.GroupsInRequest = &groups
		}
		config.OnDecision(record)
	}
}
