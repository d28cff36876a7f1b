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

// A gateVector is a policy in one or several parts, with checks: the user, the queue, the access, the groups
// (null if unknown), and the reason: empty if it depends on groups, null if only the server can decide.
// Without checks, gates refuse the policy.
type gateVector struct {
	Name      string
	Policy    []byte
	Parts     [][]byte
	Questions [][5]json.RawMessage
}

func readVectors(t *testing.T, file string) []gateVector {
	t.Helper()
	content, err := os.ReadFile("../../../../../tests/vectors/" + file)
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
	return vectors
}

// read returns what a gate makes of the policy.
func (v gateVector) read(t *testing.T) (*policy.Partition, error) {
	t.Helper()
	w := newWorld(t)
	w.session.open()
	w.receive(opened(nil))
	parts, name := v.Parts, ""
	if parts == nil {
		parts = [][]byte{v.Policy}
	}
	for _, each := range parts {
		message := &queuegatev1.PolicyPart{}
		if err := proto.Unmarshal(each, message); err != nil {
			t.Fatal(err)
		}
		name = message.GetPartition()
		response := &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Policy{Policy: message}}
		if _, err := w.session.receive(response, w.now); err != nil {
			return nil, err
		}
	}
	return w.decider.replica.state.Load().policies[name].partition, nil
}

// Tables that no server sends, of which the gates of all languages make the same.
func TestOddTables(t *testing.T) {
	refused, asked := 0, 0
	for _, vector := range readVectors(t, "odd_table_vectors.json") {
		partition, err := vector.read(t)
		if (err != nil) != (vector.Questions == nil) {
			t.Errorf("%s: %v", vector.Name, err)
		}
		if err != nil {
			refused++
			continue
		}
		for _, question := range vector.Questions {
			expectVector(t, partition, question)
			asked++
		}
	}
	if refused < 70 || asked < 70 {
		t.Error("there are only", refused, asked)
	}
}

// The vectors recorded from YuniKorn and YARN.
func TestVectors(t *testing.T) {
	vectors := readVectors(t, "gate_vectors.json")
	asked := 0
	for _, vector := range vectors {
		partition, err := vector.read(t)
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
