package gate

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// A gateVector is a policy compiled by a server, with checks: the user, the queue, the access, the groups
// (null if unknown), and the reason: empty if it depends on groups, null if only the server can decide.
type gateVector struct {
	Policy    []byte
	Questions [][5]json.RawMessage
}

// The vectors recorded from YuniKorn and YARN.
func TestVectors(t *testing.T) {
	content, err := os.ReadFile("../../../../../tests/vectors/gate_vectors.json")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the vectors are only in the repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	var vectors []gateVector
	if err := json.Unmarshal(content, &vectors); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, vector := range vectors {
		part := &queuegatev1.PolicyPart{}
		if err := proto.Unmarshal(vector.Policy, part); err != nil {
			t.Fatal(err)
		}
		partition, _, err := readTables(part)
		if err != nil {
			t.Fatal(err)
		}
		for _, question := range vector.Questions {
			expectVector(t, partition, question)
			asked++
		}
	}
	if len(vectors) < 100 || asked < 1_000 {
		t.Error("there are only", len(vectors), asked)
	}
}

func expectVector(t *testing.T, partition *policy.Partition, question [5]json.RawMessage) {
	t.Helper()
	var user, queue, kind string
	var groups []string
	var answer []any
	for i, into := range []any{&user, &queue, &kind, &groups, &answer} {
		if err := json.Unmarshal(question[i], into); err != nil {
			t.Fatal(err)
		}
	}
	access := policy.Submit
	if kind == "admin" {
		access = policy.Admin
	}
	target, isKnown := partition.Locate(queue, access)
	if isKnown != (answer != nil) {
		t.Errorf("%s: decided %v", question, isKnown)
	}
	if !isKnown {
		return
	}
	decision, evaluated, known := partition.Decide(target, user, groups, groups != nil, "")
	if known != (len(answer) > 0) {
		t.Errorf("%s: known %v", question, known)
		return
	}
	if !known {
		return
	}
	got := [5]any{decision.Allowed, string(decision.Reason), decision.MatchedQueue, decision.MatchedSubject, evaluated}
	if got != [5]any(answer) {
		t.Errorf("%s: %v", question, got)
	}
}
