package queuegate

import (
	"os"
	"testing"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// A check that requires a change succeeds on a server that has applied it, even through a gate.
func TestChecksDemandAChangeOfAServer(t *testing.T) {
	policy := written(t, yamlFor("alice"))
	address, _ := serve(t, "127.0.0.1:0", "--policy", policy, "--set", allRoles+",sync")
	gate := openGate(t, GateConfig{Config: Config{Address: address}})
	ctx := t.Context()
	invalidated, err := gate.Client().Invalidate(ctx, []string{"alice"}, InvalidateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reloaded, err := gate.Client().Reload(ctx, ReloadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	decided := gate.Decided()
	for _, change := range []*queuegatev1.Cursor{invalidated.Cursor, reloaded.Cursor} {
		question := Check{User: "alice", Queue: "root", AtLeast: change}
		if decision, err := gate.Check(ctx, question); !decision.Allowed || err != nil {
			t.Error(decision, err)
		}
		results, err := gate.CheckMany(ctx, []Check{question})
		if err != nil || !results[0].Allowed {
			t.Error(results, err)
		}
	}
	if gate.Decided() != decided {
		t.Error("the gate has decided itself")
	}
	later := &queuegatev1.Cursor{
		Epoch: invalidated.Cursor.Epoch, Sequence: invalidated.Cursor.Sequence + 1_000,
	}
	other := &queuegatev1.Cursor{Epoch: []byte("another epoch..."), Sequence: 1}
	for _, unknown := range []*queuegatev1.Cursor{{}, other, later} {
		question := Check{User: "alice", Queue: "root", AtLeast: unknown}
		_, err := gate.Check(ctx, question)
		expectError(t, err, ErrNotCaughtUp, "does not know of that change")
		results, err := gate.CheckMany(ctx, []Check{question, {User: "alice", Queue: "root"}})
		if err != nil || !results[1].Allowed {
			t.Fatal(results, err)
		}
		expectError(t, results[0].Err, ErrNotCaughtUp, "")
	}
}

// A call that waits returns once no gate decides from the previous state.
func TestCallsThatWaitForGates(t *testing.T) {
	policy := written(t, yamlFor("alice"))
	address, _ := serve(t, "127.0.0.1:0", "--policy", policy, "--set", allRoles+",sync")
	gate := openGate(t, GateConfig{Config: Config{Address: address}})
	ctx := t.Context()
	// The first such call waits for the leases of a previous process.
	first, err := gate.Client().InvalidateAll(ctx, InvalidateOptions{Wait: true})
	if err != nil || first.Cursor == nil || len(first.WaitedOut) != 1 {
		t.Errorf("%+v, %v", first, err)
	}
	for round := range 10 {
		name := []string{"bob", "alice"}[round%2]
		if err := os.WriteFile(policy, []byte(yamlFor(name)), 0o600); err != nil {
			t.Fatal(err)
		}
		reloaded, err := gate.Client().Reload(ctx, ReloadOptions{Wait: true})
		if err != nil || !reloaded.Succeeded {
			t.Fatalf("%+v, %v", reloaded, err)
		}
		if decision, err := gate.Check(ctx, Check{User: "alice", Queue: "root"}); err != nil ||
			decision.Allowed != (name == "alice") || decision.PolicyRevision != reloaded.Revision {
			t.Error(round, decision, err)
		}
	}
}
