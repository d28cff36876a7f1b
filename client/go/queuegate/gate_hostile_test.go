package queuegate

import (
	"bytes"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
	"google.golang.org/grpc/codes"
)

// A sharedBuffer is a log written by several goroutines.
type sharedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (b *sharedBuffer) Write(text []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.Write(text)
}

func (b *sharedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.String()
}

func sharedLog(t *testing.T) *sharedBuffer {
	t.Helper()
	logged, before := &sharedBuffer{}, slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(logged, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return logged
}

func greeting(change func(*queuegatev1.SyncOpened)) *queuegatev1.SyncResponse {
	opened := &queuegatev1.SyncOpened{
		Epoch: []byte("epoch"), LeaseMillis: 5_000, PingIntervalMillis: 1_000, LocalDecisions: true,
	}
	change(opened)
	return &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Opened{Opened: opened}}
}

// partOf returns a part of a policy with some names.
func partOf(isFirst bool, names ...string) *queuegatev1.SyncResponse {
	part := &queuegatev1.PolicyPart{Partition: "default", First: isFirst, Names: names}
	if isFirst {
		part.Rules, part.Naming = policy.Rules, queuegatev1.QueueNaming_QUEUE_NAMING_YUNIKORN
	}
	return &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Policy{Policy: part}}
}

// If a server violates the protocol or the bounds, the gate drops the stream, sends checks to the
// server, and logs the reason.
func TestServersThatAreNotBelieved(t *testing.T) {
	unchanged := func(*queuegatev1.SyncOpened) {}
	for want, send := range map[string]func(*fakeStream){
		"a lease of 4294967295 ms; the longest is 5000 ms": func(s *fakeStream) {
			_ = s.transmit(greeting(func(o *queuegatev1.SyncOpened) { o.LeaseMillis = math.MaxUint32 }))
		},
		"a ping interval of 4294967295 ms": func(s *fakeStream) {
			_ = s.transmit(greeting(func(o *queuegatev1.SyncOpened) { o.PingIntervalMillis = math.MaxUint32 }))
		},
		"a message has more than 4194304 bytes": func(s *fakeStream) {
			_ = s.transmit(greeting(unchanged))
			_ = s.transmit(partOf(true, strings.Repeat("x", 5<<20)))
		},
		"more than 67108864 bytes": func(s *fakeStream) { // an endless sequence of parts
			s.answers.Store(false) // a pong between parts is another violation
			_ = s.transmit(greeting(unchanged))
			acl := strings.Repeat("a", 1<<20)
			for number := 0; ; number++ {
				if s.transmit(partOf(number == 0, acl)) != nil {
					return
				}
			}
		},
		"more than 250000 queues": func(s *fakeStream) {
			s.answers.Store(false)
			_ = s.transmit(greeting(unchanged))
			for number := 0; ; number++ {
				piece, zeros := partOf(number == 0), make([]uint32, 10_000)
				piece.GetPolicy().Levels = &queuegatev1.LevelColumns{
					Above: zeros[:1], Depth: zeros[:1], Users: zeros[:1], Groups: zeros[:1], Services: zeros[:1],
				}
				piece.GetPolicy().ConfiguredQueues = &queuegatev1.QueueColumns{
					Name: slices.Repeat([]string{"q"}, len(zeros)), Parent: zeros, Submit: zeros, Admin: zeros,
				}
				if s.transmit(piece) != nil {
					return
				}
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			logged := sharedLog(t)
			server := startFake(t)
			gate := startGate(t, server, GateConfig{})
			stream, _ := nextStream(t, server)
			stream.answers.Store(true)
			go send(stream)
			<-stream.Context().Done()
			eventually(t, "the end is logged", func() bool {
				text := logged.String()
				if text != "" && !strings.Contains(text, want) {
					t.Fatal(text)
				}
				return text != ""
			})
			if !strings.Contains(logged.String(), "does not follow the protocol") {
				t.Error(logged.String())
			}
			if _, decided := gate.decide(&Check{User: "alice", Queue: "root"}); decided || gate.State() != GateConnecting {
				t.Error("it decides from what it was sent")
			}
			if decision, err := gate.Check(t.Context(), Check{User: "alice", Queue: "root"}); err != nil || decision.PolicyRevision != 7 {
				t.Error("it does not ask:", decision, err)
			}
		})
	}
}

// A gate respects the retry delay of a server that rejects its stream.
func TestARefusedGateWaits(t *testing.T) {
	server := startFake(t)
	startGate(t, server, GateConfig{})
	stream, _ := nextStream(t, server)
	refusedAt := time.Now()
	stream.end <- detailed(codes.ResourceExhausted, "too fast", "RATE_LIMITED", retryAfter(1500*time.Millisecond))
	nextStream(t, server)
	if waited := time.Since(refusedAt); waited < 1500*time.Millisecond {
		t.Error(waited)
	}
}

// If a server answers pings but sends no policy, the gate opens another stream.
func TestAServerThatSendsNoPolicyIsLeft(t *testing.T) {
	logged := sharedLog(t)
	server := startFake(t)
	gate := startGate(t, server, GateConfig{})
	stream, _ := nextStream(t, server)
	stream.answers.Store(true)
	if err := stream.transmit(greeting(func(*queuegatev1.SyncOpened) {})); err != nil {
		t.Fatal(err)
	}
	<-stream.Context().Done()
	stream, _ = nextStream(t, server)
	stream.greet(t, "alice", nil)
	becomes(t, gate, GateLive)
	want := "the server responds to pings but has sent no complete policy for 3s"
	if !strings.Contains(logged.String(), want) {
		t.Error(logged.String())
	}
}
