package queuegate

import (
	"errors"
	"strings"
	"testing"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// TestContradictions combines every reason of the contract with either outcome, only one of which is
// consistent.
func TestContradictions(t *testing.T) {
	if len(reasonGrants) != len(queuegatev1.Reason_name)-1 {
		t.Errorf("%d reasons have an outcome, of %d", len(reasonGrants), len(queuegatev1.Reason_name)-1)
	}
	server := startFake(t)
	client := server.connect(t, Config{})
	for number, name := range queuegatev1.Reason_name {
		reason := Reason(strings.ToLower(strings.TrimPrefix(name, "REASON_")))
		grants, known := reasonGrants[reason]
		if known == (reason == ReasonUnspecified) {
			t.Errorf("%s: whether it grants is in the table: %t", reason, known)
		}
		for _, allowed := range []bool{true, false} {
			answer := &queuegatev1.CheckQueueAccessResponse{Allowed: allowed, Reason: queuegatev1.Reason(number)}
			server.always(answer)
			decision, err := client.Check(t.Context(), Check{User: "alice", Queue: "root"})
			if !known || allowed == grants {
				if decision.Allowed != allowed || decision.Reason != reason || err != nil {
					t.Error(reason, allowed, decision, err)
				}
				continue
			}
			if decision != (Decision{}) || !errors.Is(err, ErrServer) {
				t.Error(reason, allowed, decision, err)
			}
			server.always(&queuegatev1.ExplainQueueAccessResponse{Decision: answer})
			explained, err := client.Explain(t.Context(), Check{User: "alice", Queue: "root"})
			if explained.GetDecision().GetAllowed() || !errors.Is(err, ErrServer) {
				t.Error(reason, allowed, explained, err)
			}
		}
	}
}

// An explanation shows whether the queue will be created, and the origin of its ACLs.
func TestAnExplanationOfAQueueThatWillBeCreated(t *testing.T) {
	const property = "yarn.scheduler.capacity.root.leaf-queue-template.acl_submit_applications"
	server := startFake(t)
	client := server.connect(t, Config{})
	server.always(&queuegatev1.ExplainQueueAccessResponse{
		Decision:      &queuegatev1.CheckQueueAccessResponse{Reason: queuegatev1.Reason_REASON_NO_MATCH},
		Steps:         []*queuegatev1.ExplainStep{{Queue: "root.new", TemplateProperty: property}},
		WillBeCreated: true,
	})
	explained, err := client.Explain(t.Context(), Check{User: "alice", Queue: "root.new"})
	if err != nil || !explained.WillBeCreated || explained.Steps[0].TemplateProperty != property {
		t.Error(explained, err)
	}
}
