package queuegate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// startGate returns a gate of a fake, with a time limit that is never reached.
func startGate(t *testing.T, server *fake, config GateConfig) *Gate {
	t.Helper()
	config.Address, config.Timeout = server.address, time.Minute
	gate, err := NewGate(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	return gate
}

// nextStream returns a gate's next stream, with its first message.
func nextStream(t *testing.T, server *fake) (*fakeStream, *queuegatev1.SyncOpen) {
	t.Helper()
	select {
	case stream := <-server.streams:
		first := <-stream.requests
		if first.GetOpen() == nil {
			t.Fatal(first)
		}
		return stream, first.GetOpen()
	case <-time.After(time.Minute):
		t.Fatal("no stream was opened")
		return nil, nil
	}
}

// until answers pings until the gate sends a message of a given kind.
func (s *fakeStream) until(t *testing.T, is func(*queuegatev1.SyncRequest) bool) *queuegatev1.SyncRequest {
	t.Helper()
	for {
		request := <-s.requests
		if request == nil {
			t.Fatal("the stream has ended")
		}
		if is(request) {
			return request
		}
		if ping := request.GetPing(); ping != nil {
			s.send(t, pongTo(ping))
		}
	}
}

func (s *fakeStream) send(t *testing.T, responses ...*queuegatev1.SyncResponse) {
	t.Helper()
	for _, response := range responses {
		if err := s.transmit(response); err != nil {
			t.Fatal(err)
		}
	}
}

// greet sends a gate a policy that allows a user, and maintains its lease. change modifies the first
// message.
func (s *fakeStream) greet(t *testing.T, user string, change func(*queuegatev1.SyncOpened)) {
	t.Helper()
	opened := &queuegatev1.SyncOpened{
		Epoch: []byte("epoch"), LeaseMillis: 5_000, PingIntervalMillis: 1_000, LocalDecisions: true,
	}
	if change != nil {
		change(opened)
	}
	s.send(t,
		&queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Opened{Opened: opened}},
		policyPart(user),
		&queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Checkpoint{Checkpoint: &queuegatev1.SyncCheckpoint{Sequence: 5}}},
	)
	s.until(t, func(request *queuegatev1.SyncRequest) bool { return request.GetApplied().GetSequence() == 5 })
	s.until(t, func(request *queuegatev1.SyncRequest) bool {
		ping := request.GetPing()
		if ping != nil {
			s.send(t, pongTo(ping))
		}
		return ping != nil
	})
	s.answers.Store(opened.LeaseMillis > 1)
}

func policyPart(user string) *queuegatev1.SyncResponse {
	return &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Policy{Policy: &queuegatev1.PolicyPart{
		Partition: "default", First: true, Last: true, Revision: 1, Checksum: []byte(user), Rules: policy.Rules,
		Naming: queuegatev1.QueueNaming_QUEUE_NAMING_YUNIKORN, Names: []string{user},
		Levels: &queuegatev1.LevelColumns{
			Above: []uint32{0, 1}, Depth: []uint32{0, 1}, Users: []uint32{0, 1}, Groups: []uint32{0, 0},
			Services: []uint32{0, 0}, Listed: []uint32{0}, EndReasons: []queuegatev1.Reason{queuegatev1.Reason_REASON_NO_MATCH},
		},
		ConfiguredQueues: &queuegatev1.QueueColumns{
			Parent: []uint32{0}, Name: []string{"root"}, Submit: []uint32{1}, Admin: []uint32{0},
		},
	}}}
}

func becomes(t *testing.T, gate *Gate, state GateState) {
	t.Helper()
	eventually(t, fmt.Sprint("the gate is ", state), func() bool { return gate.State() == state })
}

func TestInvalidSettingsOfAGate(t *testing.T) {
	for want, config := range map[string]GateConfig{
		"GateConfig.Stale must be 0 to 24 h, not 24h0m": {Stale: 24*time.Hour + 1},
		"GateConfig.Stale must be 0 to 24 h, not -1ns":  {Stale: -1},
		"GateConfig.Partitions must have at most 10000": {Partitions: make([]string, 10_001)},
		"GateConfig.Name must have at most 256 bytes":   {Name: strings.Repeat("n", 257)},
		"GateConfig.Name must not contain control":      {Name: "a\nb"},
		"GateConfig.Name is not valid UTF-8":            {Name: "\xff"},
		"GateConfig.Partitions[1] is empty":             {Partitions: []string{"default", ""}},
		"Config.Address":                                {Config: Config{Address: "nowhere"}},
	} {
		if _, err := NewGate(config); err == nil || !strings.Contains(err.Error(), "queuegate: "+want) {
			t.Errorf("%v instead of %q", err, want)
		}
	}
}

func TestAGateResumes(t *testing.T) {
	server := startFake(t)
	gate := startGate(t, server, GateConfig{Name: "gate", Partitions: []string{"default"}})
	stream, first := nextStream(t, server)
	if first.Resume != nil || first.Name != "gate" || len(first.Partitions) != 1 || gate.State() != GateConnecting {
		t.Error(first, gate.State())
	}
	stream.greet(t, "alice", nil)
	becomes(t, gate, GateLive)
	stream.end <- detailed(codes.Unavailable, "draining", "DRAINING")
	stream, again := nextStream(t, server)
	if again.GetResume().GetSequence() != 5 || len(again.Held) != 1 {
		t.Error(again)
	}
	alice := Check{User: "alice", Queue: "root"}
	if decision, err := gate.Check(t.Context(), alice); err != nil || decision.Stale || gate.Decided() != 1 {
		t.Error("the lease lasts:", decision, err)
	}
	stream.end <- status.Error(codes.PermissionDenied, "no longer")
	stream, again = nextStream(t, server)
	if again.Resume != nil || gate.State() != GateConnecting {
		t.Error(again, gate.State())
	}
	stream.send(t, &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Policy{
		Policy: &queuegatev1.PolicyPart{Partition: "default", Last: true}}})
	stream, again = nextStream(t, server)
	if again.Resume != nil {
		t.Error("after messages that make no sense:", again)
	}
	stream.greet(t, "alice", nil)
	becomes(t, gate, GateLive)
	if asked := server.seen(); len(asked) > 0 {
		t.Error(asked)
	}
}

func TestAServerThatFallsSilent(t *testing.T) {
	server := startFake(t)
	gate := startGate(t, server, GateConfig{Stale: time.Hour})
	stream, _ := nextStream(t, server)
	stream.greet(t, "alice", func(opened *queuegatev1.SyncOpened) { opened.LeaseMillis = 1 })
	stream, _ = nextStream(t, server) // the first stream is dropped
	eventually(t, "the gate decides from old state", func() bool {
		decision, decided := gate.decide(&Check{User: "alice", Queue: "root"})
		return decided && decision.Stale
	})
	eventually(t, "the server can be asked", func() bool {
		stream.greet(t, "alice", func(opened *queuegatev1.SyncOpened) { opened.LeaseMillis = 1 })
		becomes(t, gate, GateExpired)
		decision, err := gate.Check(t.Context(), Check{User: "alice", Queue: "root"})
		if decision.Stale { // on a busy machine, the server may have been silent again
			stream, _ = nextStream(t, server)
			return false
		}
		if decision.PolicyRevision != 7 || err != nil {
			t.Error(decision, err)
		}
		return true
	})
}

// OnDecision receives each local decision, with the keys of the server's audit records.
func TestDecisionsAreTold(t *testing.T) {
	server := startFake(t)
	var told []string
	config := GateConfig{Name: "shim", OnDecision: func(record DecisionRecord) {
		if since := time.Since(record.Time); since < 0 || since > time.Minute || record.Time.Nanosecond()%1_000 > 0 {
			t.Error(record.Time)
		}
		record.Time = time.Date(2026, 11, 21, 14, 15, 15, 701_522_000, time.UTC)
		line, err := json.Marshal(record)
		if err != nil {
			t.Error(err)
		}
		told = append(told, string(line))
	}}
	gate := startGate(t, server, config)
	stream, _ := nextStream(t, server)
	stream.greet(t, "alice", func(opened *queuegatev1.SyncOpened) { opened.AssertGroups = true })
	becomes(t, gate, GateLive)
	for _, question := range []Check{
		{User: "alice", Queue: "root", Groups: []string{"g", "h"}},
		{User: "alice", Queue: "root", Groups: []string{"g", "h"}}, // cached
		{User: "bob", Queue: "root.new", Partition: "[rm]default", Access: Admin, NoGroups: true},
	} {
		if _, decided := gate.decide(&question); !decided {
			t.Error("not decided:", question)
		}
	}
	gate.decide(&Check{User: "alice", Queue: "root", Partition: "elsewhere"}) // the server decides
	start := `{"time":"2026-11-21T14:15:15.701522Z","caller":"gate:shim","method":"CheckQueueAccess",`
	alice := start + `"user":"alice","partition":"default","groups_in_request":2,"queue":"root","access":"submit",` +
		`"decision":"allowed","reason":"user","matched_queue":"root","matched_name":"alice","revision":1}`
	bob := start + `"user":"bob","partition":"default","groups_in_request":0,"queue":"root.new","access":"admin",` +
		`"decision":"denied","reason":"no_match","matched_queue":"","matched_name":"","revision":1}`
	if want := []string{alice, alice, bob}; !slices.Equal(told, want) {
		t.Errorf("%s instead of %s", told, want)
	}
}

func TestChangesAreReported(t *testing.T) {
	server := startFake(t)
	var gate *Gate
	var calls, overlapping atomic.Int32
	started := make(chan struct{})
	ended := make(chan struct{})
	gate = startGate(t, server, GateConfig{OnChange: func() {
		<-started
		if overlapping.Add(1) > 1 {
			t.Error("two calls at once")
		}
		if calls.Add(1) == 2 {
			gate.Close() // does not wait for this call
			close(ended)
		}
		overlapping.Add(-1)
	}})
	close(started)
	stream, _ := nextStream(t, server)
	stream.greet(t, "alice", nil)
	eventually(t, "it is called", func() bool { return calls.Load() == 1 })
	stream.send(t, policyPart("bob"))
	<-ended
	_, err := gate.Check(t.Context(), Check{User: "bob", Queue: "root"})
	expectError(t, err, ErrClosed, "the gate is closed")
}

func TestCheckManyAsksOnlyWhatTheGateCannotDecide(t *testing.T) {
	server := startFake(t)
	gate := startGate(t, server, GateConfig{})
	stream, _ := nextStream(t, server)
	stream.greet(t, "alice", nil)
	becomes(t, gate, GateLive)
	var questions []Check
	for i := range 10 {
		questions = append(questions, Check{User: "alice", Queue: "root", Partition: []string{"", "elsewhere"}[i%2]})
	}
	results, err := gate.CheckMany(t.Context(), questions)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range results {
		if want := []uint64{1, 7}[i%2]; !result.Allowed || result.PolicyRevision != want || result.Err != nil {
			t.Errorf("%d: %+v", i, result)
		}
	}
	if asked := server.seen(); len(asked) != 1 || len(asked[0].(*queuegatev1.BatchCheckQueueAccessRequest).Checks) != 5 {
		t.Error(asked)
	}
	_, err = gate.CheckMany(t.Context(), []Check{{User: "alice", Queue: "root"}, {User: "alice"}})
	expectError(t, err, ErrInvalidArgument, "checks[1].queue")
	_, err = gate.Check(t.Context(), Check{User: "alice", Queue: "root", Access: "own"})
	expectError(t, err, ErrInvalidArgument, "access")
	if gate.Decided() != 5 {
		t.Error(gate.Decided())
	}
}

// Readers and the stream do not interfere. Run with the race detector.
func TestGoroutinesShareAGate(t *testing.T) {
	server := startFake(t)
	gate := startGate(t, server, GateConfig{})
	stream, _ := nextStream(t, server)
	stream.greet(t, "alice", nil)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	for i := range 4 {
		go func() {
			for ctx.Err() == nil {
				user := fmt.Sprint("user", i)
				decision, decided := gate.decide(&Check{User: user, Queue: "root"})
				if decided && decision.Allowed != (decision.PolicyRevision == 1 && user == decision.MatchedSubject) {
					done <- fmt.Errorf("%+v", decision)
					return
				}
				gate.State()
				gate.Resets()
			}
			done <- nil
		}()
	}
	for i := range 500 {
		stream.send(t, policyPart(fmt.Sprint("user", i%4)))
	}
	stop()
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A closed gate releases its lease, so that no call waits for it.
func TestAGateGivesUpItsLease(t *testing.T) { givesUpItsLease(t, true) }

// The server grants a lease with the first ping.
func TestAGateThatIsNotYetLiveGivesUpItsLease(t *testing.T) { givesUpItsLease(t, false) }

func givesUpItsLease(t *testing.T, isLive bool) {
	server := startFake(t)
	eventually(t, "a gate gives up its lease", func() bool { // in time, unless the machine is busy
		gate := startGate(t, server, GateConfig{})
		stream, _ := nextStream(t, server)
		if isLive {
			stream.greet(t, "alice", nil)
			becomes(t, gate, GateLive)
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			gate.Close()
		}()
		released := false
		for !released {
			request := <-stream.requests
			if request == nil {
				break
			}
			released = request.GetRelease() != nil
		}
		if released {
			if _, decided := gate.decide(&Check{User: "alice", Queue: "root"}); decided {
				t.Error("it decides after it has given up its lease")
			}
		}
		select {
		case stream.end <- nil:
		case <-stream.Context().Done():
		}
		<-closed
		return released
	})
}
