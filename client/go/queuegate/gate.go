package queuegate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/gate"
	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
)

// GateConfig configures a gate. The zero value of each field is its default.
type GateConfig struct {
	// Config configures the connection, as for a client.
	Config
	// Name is the gate's name on the server, at most 256 bytes. Defaults to the host name and process ID.
	Name string
	// Partitions are the partitions whose policies to copy, at most 10 000; all if empty. A partition
	// missing from the server is logged once, and used once the server has it.
	Partitions []string
	// Stale is how long the gate decides without a lease while the server is unreachable; after that,
	// calls fail. At most 24 h. Such decisions have Stale set, and may predate a change that a call has
	// waited for: the call's response then names the gate.
	Stale time.Duration
	// OnChange is called in its own goroutine after the gate has switched to another policy. Calls do
	// not overlap, and a single call may cover several changes. A panic terminates the process.
	OnChange func()
	// OnDecision is called with each local decision in the calling goroutine, before the decision is
	// returned: for the program's own log, since the server's audit log lacks these decisions. Slow calls
	// delay decisions. A decision whose lease ends meanwhile is void, and the server is asked.
	OnDecision func(DecisionRecord)
}

// GateState is whether a gate decides locally.
type GateState string

// The states of a gate.
const (
	// GateConnecting: the gate has no policy, and sends checks to the server.
	GateConnecting = GateState(gate.Connecting)
	// GateLive: the gate decides.
	GateLive = GateState(gate.Live)
	// GateExpired: the gate's lease has expired. It sends checks to the server, or uses old state if
	// [GateConfig.Stale] permits.
	GateExpired = GateState(gate.Expired)
	// GateForbidden: the server forbids the gate to decide.
	GateForbidden = GateState(gate.Forbidden)
	// GateClosed: the gate is closed.
	GateClosed = GateState(gate.Closed)
)

// A Gate decides in this process, from a copy of the policy kept current by the server. Its caller
// needs the `sync` role.
//
// It sends a check to the server if it lacks the user's groups, and sends every check while it has no
// lease. Leases guarantee that no gate decides from old state once an invalidation or a reload with
// Wait has returned. A lease expires at most 5 s after the last message from the server.
//
// Check, CheckMany and ListQueues are decided locally. For other calls, use [Gate.Client].
type Gate struct {
	client *Client
	gate   *gate.Gate
}

// NewGate creates a gate, which connects in the background. An error names the field of config that
// is invalid, or the file that cannot be read.
func NewGate(config GateConfig) (*Gate, error) {
	if config.Name == "" {
		host, _ := os.Hostname() // on failure, the process ID is enough
		config.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if fault := config.fault(); fault != "" {
		return nil, errors.New("queuegate: GateConfig." + fault)
	}
	client, err := New(config.Config)
	if err != nil {
		return nil, err
	}
	client.owner = "gate"
	g := &Gate{client: client}
	g.gate = gate.Start(gate.Options{
		Open: func(ctx context.Context) (gate.Stream, error) {
			return client.sync.Sync(ctx, grpc.MaxCallRecvMsgSize(gate.ReceiveLimit))
		},
		Explain: func(err error, hasAnswered bool) error {
			if hasAnswered {
				client.hasWorked.Store(true)
			}
			return client.failure(context.Background(), err)
		},
		Name:       config.Name,
		Agent:      "queuegate-go",
		Partitions: config.Partitions,
		Stale:      config.Stale,
		OnChange:   config.OnChange,
		OnDecision: config.recorder(),
	})
	return g, nil
}

// fault returns an invalid field with its fault; empty if all are valid.
func (config *GateConfig) fault() string {
	switch {
	case config.Stale < 0, config.Stale > gate.MaxStale:
		return fmt.Sprintf("Stale must be 0 to %.0f h, not %v", gate.MaxStale.Hours(), config.Stale)
	case len(config.Partitions) > maxPartitions:
		return fmt.Sprintf("Partitions must have at most %d names", maxPartitions)
	case len(config.Name) > maxGateName:
		return fmt.Sprintf("Name must have at most %d bytes", maxGateName)
	case strings.ContainsFunc(config.Name, unicode.IsControl):
		return "Name must not contain control characters"
	case !utf8.ValidString(config.Name):
		return "Name is not valid UTF-8"
	}
	for i, name := range config.Partitions {
		if textFault(name, required) != "" {
			return fmt.Sprintf("Partitions[%d] is empty or not valid UTF-8", i)
		}
	}
	return ""
}

const (
	maxPartitions = 10_000
	maxGateName   = 256
)

// Client returns the gate's client, which sends all calls to the server. Close the gate, not its
// client.
func (g *Gate) Client() *Client { return g.client }

// State returns whether the gate decides locally.
func (g *Gate) State() GateState { return GateState(g.gate.State()) }

// Decided returns the number of local decisions.
func (g *Gate) Decided() uint64 { return g.gate.Decided() }

// Resets returns how often the server has made the gate drop its lease and groups.
func (g *Gate) Resets() uint64 { return g.gate.Resets() }

// Check checks whether a user may use a queue, as [Client.Check] does. The context applies only to
// calls to the server; a local decision ignores a cancelled context.
func (g *Gate) Check(ctx context.Context, question Check) (Decision, error) {
	if decision, decided := g.decide(&question); decided {
		return decision, nil
	}
	return g.client.Check(ctx, question)
}

// CheckMany runs many checks, as [Client.CheckMany] does. Only checks that the gate cannot decide
// are sent to the server, and the context applies only to those.
func (g *Gate) CheckMany(ctx context.Context, questions []Check) ([]Result, error) {
	if err := validateAll(questions, (*Check).faults); err != nil {
		return nil, err
	}
	results := make([]Result, len(questions))
	var positions []int
	var rest []Check
	for i := range questions {
		decision, decided := g.decide(&questions[i])
		results[i].Decision = decision
		if !decided {
			positions = append(positions, i)
			rest = append(rest, questions[i])
		}
	}
	asked, err := g.client.CheckMany(ctx, rest)
	if err != nil {
		return nil, err
	}
	for i, position := range positions {
		results[position] = asked[i]
	}
	return results, nil
}

// Close releases the lease, so that no call waits for this gate, and closes the connection. Pending and
// later calls return [ErrClosed]. Closing a gate again has no effect.
func (g *Gate) Close() error {
	g.gate.Close()
	return g.client.Close()
}

// ListQueues lists the full paths of the configured queues that a user may use, sorted, as
// [Client.ListQueues] does.
func (g *Gate) ListQueues(ctx context.Context, listing QueueListing) ([]string, error) {
	question, isForGate := questionFor(&Check{
		User: listing.User, Queue: cmp.Or(listing.Prefix, "root"), Partition: listing.Partition,
		Access: listing.Access, Groups: listing.Groups, NoGroups: listing.NoGroups,
		RealUser: listing.RealUser,
	})
	if isForGate {
		if queues, decided := g.gate.Queues(&question); decided {
			return queues, nil
		}
	}
	return g.client.ListQueues(ctx, listing)
}

func (g *Gate) decide(check *Check) (Decision, bool) {
	question, isForGate := questionFor(check)
	if !isForGate {
		return Decision{}, false
	}
	answer, decided := g.gate.Decide(&question)
	return Decision{
		Allowed:        answer.Allowed,
		Reason:         Reason(answer.Reason),
		MatchedQueue:   answer.MatchedQueue,
		MatchedSubject: answer.MatchedSubject,
		PolicyRevision: answer.Revision,
		EvaluatedQueue: answer.Evaluated,
		Stale:          answer.Stale,
	}, decided
}

// questionFor converts a check for the gate; false if only the server can decide it.
func questionFor(check *Check) (gate.Question, bool) {
	access := policy.Submit
	if check.Access == Admin {
		access = policy.Admin
	}
	return gate.Question{
		User: check.User, Queue: check.Queue, Partition: check.Partition, Access: access,
		Groups: check.Groups, NoGroups: check.NoGroups, RealUser: check.RealUser,
	}, check.Access.faults() == nil && check.AtLeast == nil
}
