package queuegate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// gateVariable contains a server's address, to run this program as a separate process with a gate.
const gateVariable = "TEST_QUEUEGATE_GATE"

func TestMain(m *testing.M) {
	if address := os.Getenv(gateVariable); address != "" {
		answerQuestions(address)
		return
	}
	os.Exit(m.Run())
}

// answerQuestions reads users and queues from standard input, and prints the revisions of the decisions.
func answerQuestions(address string) {
	gate, err := NewGate(GateConfig{Config: Config{Address: address, Timeout: time.Minute}, Name: "stopped gate"})
	if err != nil {
		panic(err)
	}
	defer gate.Close()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		user, queue, _ := strings.Cut(lines.Text(), " ")
		before := gate.Decided()
		decision, err := gate.Check(context.Background(), Check{User: user, Queue: queue})
		if err != nil {
			panic(err)
		}
		fmt.Println(decision.PolicyRevision, decision.Allowed, gate.Decided() > before)
	}
}

func yamlFor(user string) string {
	return fmt.Sprintf("partitions: [{name: default, queues: [{name: root, submitacl: %s}]}]", user)
}

// A reload that waits for gates waits at most for the length of a lease if a process is suspended. When
// resumed, that process does not decide from the previous policy.
func TestAGateInAProcessThatIsStopped(t *testing.T) {
	policy := written(t, yamlFor("alice"))
	address, _ := serve(t, "127.0.0.1:0", "--policy", policy, "--set", allRoles+",sync")
	client := patient(t, address)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command(program)
	process.Env = append(os.Environ(), gateVariable+"="+address)
	process.Stderr = os.Stderr
	input, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer process.Wait()
	defer input.Close()
	defer process.Process.Signal(syscall.SIGCONT)
	answers := bufio.NewReader(output)
	answer := func() (revision uint64, allowed, local bool) {
		if _, err := fmt.Fscanln(answers, &revision, &allowed, &local); err != nil {
			t.Fatal(err)
		}
		return revision, allowed, local
	}
	ask := func(count int) {
		if _, err := io.WriteString(input, strings.Repeat("alice root\n", count)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the gate decides by itself", func() bool {
		ask(1)
		revision, allowed, local := answer()
		if revision != 1 || !allowed {
			t.Error(revision, allowed)
		}
		return local
	})
	for round := range uint64(2) {
		process.Process.Signal(syscall.SIGSTOP)
		if err := os.WriteFile(policy, []byte(yamlFor([]string{"bob", "eve"}[round])), 0o600); err != nil {
			t.Fatal(err)
		}
		reloaded, err := client.Reload(t.Context(), ReloadOptions{Wait: true})
		// On a busy machine, reading the policy may outlast the lease. Then the call need not wait for it.
		if err != nil || !reloaded.Succeeded || len(reloaded.WaitedOut) > 0 && reloaded.WaitedOut[0] != "stopped gate" {
			t.Error(reloaded, err)
		}
		ask(1_000) // sent before it resumes, so that it decides immediately after resuming
		process.Process.Signal(syscall.SIGCONT)
		for range 1_000 {
			if revision, allowed, _ := answer(); revision != 2+round || allowed {
				t.Fatal(revision, allowed)
			}
		}
		eventually(t, "the gate decides by itself again", func() bool {
			ask(1)
			_, _, local := answer()
			return local
		})
	}
}

// A recorder records the server's messages on a stream.
type recorder struct {
	grpc.ClientStream
	record func(*queuegatev1.SyncResponse)
}

func (r recorder) RecvMsg(message any) error {
	err := r.ClientStream.RecvMsg(message)
	if err == nil {
		r.record(message.(*queuegatev1.SyncResponse))
	}
	return err
}

// After a server restart, a gate resumes without receiving its policy again.
func TestAGateWhoseServerRestarts(t *testing.T) {
	policy := written(t, yamlFor("alice"))
	address, stop := serve(t, "127.0.0.1:0", "--policy", policy, "--set", allRoles+",sync")
	var mutex sync.Mutex
	var received []*queuegatev1.SyncResponse
	seen := func(is func(*queuegatev1.SyncResponse) bool) bool {
		mutex.Lock()
		defer mutex.Unlock()
		return slices.ContainsFunc(received, is)
	}
	record := func(
		ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string,
		open grpc.Streamer, options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		opened, err := open(ctx, description, connection, method, options...)
		return recorder{opened, func(response *queuegatev1.SyncResponse) {
			mutex.Lock()
			defer mutex.Unlock()
			received = append(received, response)
		}}, err
	}
	gate := openGate(t, GateConfig{
		Config: Config{Address: address, DialOptions: []grpc.DialOption{grpc.WithStreamInterceptor(record)}},
		Name:   "gate", Stale: time.Hour,
	})
	alice := Check{User: "alice", Queue: "root"}
	want := Decision{Allowed: true, Reason: ReasonUser, MatchedQueue: "root", MatchedSubject: "alice", PolicyRevision: 1}
	expectDecision(t, gate, "alice", alice, want)
	stop()
	eventually(t, "the lease has ended", func() bool {
		got, decided := gate.decide(&alice)
		if !decided || !got.Allowed {
			t.Error(got, decided)
		}
		return got.Stale
	})
	if !gate.client.hasWorked.Load() {
		t.Error("errors would doubt the settings of TLS")
	}
	if gate.State() != GateExpired {
		t.Error(gate.State())
	}
	mutex.Lock()
	received = nil
	mutex.Unlock()
	serve(t, address, "--policy", policy, "--set", allRoles+",sync")
	eventually(t, "the gate is live again", func() bool { return gate.State() == GateLive })
	expectDecision(t, gate, "alice", alice, want)
	if !seen(func(each *queuegatev1.SyncResponse) bool { return each.GetPolicy().GetUnchanged() }) ||
		seen(func(each *queuegatev1.SyncResponse) bool { return each.GetPolicy().GetConfiguredQueues() != nil }) {
		t.Error(received)
	}
	if gate.Resets() != 1 {
		t.Error(gate.Resets())
	}
}

// A server with an audit log forbids gates to decide, unless sync.local_decisions allows it.
func TestAGateOfAServerWithAnAuditLog(t *testing.T) {
	alice := Check{User: "alice", Queue: "root"}
	log := written(t, "")
	arguments := []string{"--policy", written(t, yamlFor("alice")), "--set", allRoles + ",sync",
		"--set", "audit.path=" + log, "--set", "audit.records=all"}
	logged := captureLog(t)
	address, stop := serve(t, "127.0.0.1:0", arguments...)
	var told atomic.Pointer[DecisionRecord]
	gate, err := NewGate(GateConfig{
		Config: Config{Address: address, Timeout: time.Minute}, Name: "shim 7",
		OnDecision: func(record DecisionRecord) { told.Store(&record) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	eventually(t, "the gate knows", func() bool { return gate.State() == GateForbidden })
	decision, err := gate.Check(t.Context(), alice)
	if !decision.Allowed || err != nil || gate.Decided() != 0 || told.Load() != nil {
		t.Error(decision, err, gate.Decided(), told.Load())
	}
	if !strings.Contains(logged.String(), "sync.local_decisions") {
		t.Error(logged)
	}
	stop()
	serve(t, address, append(arguments, "--set", "sync.local_decisions=allow")...)
	eventually(t, "the gate decides", func() bool {
		_, decided := gate.decide(&alice)
		return decided
	})
	content, err := os.ReadFile(log)
	if records := strings.Count(string(content), "\n"); records != 1 || err != nil {
		t.Error("the server records what it decides itself:", string(content), err)
	}
	if record := told.Load(); record.Caller != "gate:shim 7" || record.Outcome != "allowed" || record.Stale {
		t.Error(record)
	}
}

// A gate whose caller lacks the role sends checks to the server.
func TestAGateWithoutTheRole(t *testing.T) {
	logged := captureLog(t)
	address, _ := serve(t, "127.0.0.1:0", "--policy", written(t, yamlFor("alice")), "--set", "callers.loopback.roles=check")
	gate, err := NewGate(GateConfig{Config: Config{Address: address, Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	decision, err := gate.Check(t.Context(), Check{User: "alice", Queue: "root"})
	if !decision.Allowed || err != nil || gate.State() != GateConnecting {
		t.Error(decision, err, gate.State())
	}
	gate.Close()
	gate.Close()
	if strings.Contains(logged.String(), "rpc error") {
		t.Error(logged)
	}
	_, err = gate.Check(t.Context(), Check{User: "alice", Queue: "root"})
	expectError(t, err, ErrClosed, "the gate is closed")
	for _, call := range calls {
		expectError(t, call(t.Context(), gate.Client()), ErrClosed, "the gate is closed")
	}
	if gate.State() != GateClosed {
		t.Error(gate.State())
	}
}
