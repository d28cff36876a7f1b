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

// GateConfig configures a gate. The zero value is the default of each field.
type GateConfig struct {
	// Config configures the connection, as for a client.
	Config
	// Name is the name of the gate on the server, at most 256 bytes. Empty: the host and process ID.
	Name string
	// Partitions are those whose policies the gate holds, at most 10 000. None: all. A partition that
	// the server does not have is logged once, and used as soon as the server has it.
	Partitions []string
	// Stale is how long the gate decides without a lease while it cannot reach the server; after that,
	// calls fail. Such decisions have Stale set, and may predate a change that a call has waited for.
	// Zero: not at all.
	Stale time.Duration
	// OnChange is called in its own goroutine after the gate has switched to another policy. Calls do
	// not overlap, and one may cover several changes. As in any goroutine, a panic ends the process.
	OnChange func()
	// Outbox is a folder on a local disk in which decisions, at most 64 MiB, wait for the server's
	// audit log, if the server requires reports. Each gate needs its own. Empty: the gate asks such a
	// server.
	Outbox string
}

// GateState is whether a gate decides on its own.
type GateState string

// The states of a gate.
const (
	// GateConnecting: it has no policy yet, or has dropped it, and asks the server.
	GateConnecting = GateState(gate.Connecting)
	// GateLive: it decides.
	GateLive = GateState(gate.Live)
	// GateExpired: its lease has ended. It asks the server, or uses old state if [GateConfig.Stale]
	// allows that.
	GateExpired = GateState(gate.Expired)
	// GateForbidden: the server does not let it decide, so it asks the server.
	GateForbidden = GateState(gate.Forbidden)
	// GateClosed: it is closed.
	GateClosed = GateState(gate.Closed)
)

// A Gate decides in this process, from a copy of the policy that its server keeps current. Its caller
// needs the role sync.
//
// It sends a question to the server if it does not hold the groups that the decision needs, and sends
// every question while it has no lease. Because of the lease, no gate decides from old state once an
// invalidation or a reload with Wait has returned. A lease ends at most 5 s after the server was last
// heard from.
//
// Check, CheckMany and ListQueues decide. For other calls, use the gate's [Gate.Client].
type Gate struct {
	client *Client
	gate   *gate.Gate
	outbox *gate.Outbox // nil: there is none
}

// NewGate creates a gate, which connects in the background. An error says which field of config is
// invalid, or which of its files cannot be read.
func NewGate(config GateConfig) (*Gate, error) {
	if config.Name == "" {
		host, _ := os.Hostname() // without it, the process will do
		config.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if fault := config.fault(); fault != "" {
		return nil, errors.New("queuegate: GateConfig." + fault)
	}
	client, err := New(config.Config)
	if err != nil {
		return nil, err
	}
	g := &Gate{client: client}
	if config.Outbox != "" {
		if g.outbox, err = gate.OpenOutbox(config.Outbox); err != nil {
			client.Close()
			return nil, fmt.Errorf("queuegate: GateConfig.Outbox: %w", err)
		}
	}
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
		Partitions: config.Partitions,
		Stale:      config.Stale,
		OnChange:   config.OnChange,
		Outbox:     g.outbox,
	})
	return g, nil
}

// fault returns the field that is wrong and why; empty if none is.
func (config *GateConfig) fault() string {
	switch {
	case config.Stale < 0:
		return fmt.Sprintf("Stale must not be negative, not %v", config.Stale)
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

// Client returns the client of the gate, for all other calls. It always asks the server. Close the
// gate, not its client.
func (g *Gate) Client() *Client { return g.client }

// State returns whether the gate decides on its own.
func (g *Gate) State() GateState { return GateState(g.gate.State()) }

// Decided returns how many questions the gate has decided.
func (g *Gate) Decided() uint64 { return g.gate.Decided() }

// Resets returns how often the server has reset the gate, which drops its lease and groups.
func (g *Gate) Resets() uint64 { return g.gate.Resets() }

// OutboxCounts are what became of the decisions that a gate must report, since it was created.
type OutboxCounts struct {
	// WaitingBytes is the size of all files in the outbox.
	WaitingBytes int64
	// Confirmed decisions are in the server's audit log.
	Confirmed uint64
	// NotKept decisions did not fit, or could not be written: the server was asked instead.
	NotKept uint64
	// Rejected decisions were not accepted by the server. They are in the file rejected.
	Rejected uint64
	// Damaged files could not be read completely. A copy of each has the suffix .damaged.
	Damaged uint64
}

// OutboxCounts returns what became of the decisions that must be reported; zero without an outbox.
func (g *Gate) OutboxCounts() OutboxCounts {
	if g.outbox == nil {
		return OutboxCounts{}
	}
	return OutboxCounts(g.outbox.Counts())
}

// Check checks whether a user may use a queue, as [Client.Check] does. The context matters only if
// the server has to be asked: a decision that the gate makes itself ignores a context that is done.
func (g *Gate) Check(ctx context.Context, question Check) (Decision, error) {
	if decision, decided := g.decide(&question); decided {
		return decision, nil
	}
	return g.client.Check(ctx, question)
}

// CheckMany checks many questions, as [Client.CheckMany] does. It sends only the questions that
// the gate cannot decide; for the others the context does not matter.
func (g *Gate) CheckMany(ctx context.Context, questions []Check) ([]Result, error) {
	if err := validateAll(questions, (*Check).faults); err != nil {
		return nil, err
	}
	results := make([]Result, len(questions))
	var places []int
	var rest []Check
	for i := range questions {
		decision, decided := g.decide(&questions[i])
		results[i].Decision = decision
		if !decided {
			places = append(places, i)
			rest = append(rest, questions[i])
		}
	}
	asked, err := g.client.CheckMany(ctx, rest)
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		results[place] = asked[i]
	}
	return results, nil
}

// Close gives up the lease, so that no call waits for this gate, and closes its connection. Pending and
// later calls end with [ErrClosed]. Closing it again does nothing.
func (g *Gate) Close() error {
	g.gate.Close()
	if g.outbox != nil {
		g.outbox.Close()
	}
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

// questionFor returns a check as a question to the gate; false if only the server can answer it.
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
