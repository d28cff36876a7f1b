// Package gate keeps a copy of a server's policies and of users' groups current, and decides from it
// under a lease from the server.
package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const (
	firstPause   = 100 * time.Millisecond // the initial backoff before reconnecting, doubled up to longestPause
	longestPause = 2 * time.Second
	// releaseTime is how long Close waits until the release of the lease is sent.
	releaseTime = 500 * time.Millisecond
)

// MaxStale is the longest time that a gate may decide without a lease.
const MaxStale = maxStale

// State is whether a gate decides.
type State string

// The states.
const (
	Connecting State = "connecting" // no policy has arrived yet
	Live       State = "live"
	Expired    State = "expired"   // the lease has expired
	Forbidden  State = "forbidden" // by the server
	Closed     State = "closed"
)

// A Stream connects a gate to its server.
type Stream = grpc.BidiStreamingClient[queuegatev1.SyncRequest, queuegatev1.SyncResponse]

// Options configure a gate. Common fields are documented at GateConfig in package queuegate.
type Options struct {
	Open func(context.Context) (Stream, error)
	// Explain converts the error that ended a stream to a client error. hasAnswered is whether
	// the server has responded on any stream.
	Explain    func(err error, hasAnswered bool) error
	Name       string
	Agent      string // the program and its version
	Partitions []string
	Stale      time.Duration
	OnChange   func() // may be nil
	// OnDecision receives each local decision before its caller does; may be nil.
	OnDecision func(*Question, Answer)
}

// A Gate decides under a lease from its server.
type Gate struct {
	*decider
	options  Options
	changed  chan struct{}
	wake     chan struct{}
	cancel   context.CancelFunc
	closing  chan struct{}
	stopped  chan struct{}
	isClosed atomic.Bool
	isOpen   atomic.Bool // a stream is open; the server may have granted a lease before the gate is live
	resets   atomic.Uint64

	mutex       sync.Mutex // guards the fields below, and the session
	nextPing    time.Duration
	reply       *queuegatev1.SyncRequest // the acknowledgment to send
	pause       time.Duration
	pongs       int // on this stream
	log         *streamLog
	hasAnswered bool // on any stream
}

// Start starts a gate, which connects in the background.
func Start(options Options) *Gate {
	g := &Gate{
		options: options,
		changed: make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
		pause:   firstPause,
		log:     newStreamLog(options.Partitions),
	}
	replica := newReplica(len(options.Partitions) > 0, func() { signal(g.changed) })
	wants := newWants(func() { signal(g.wake) })
	g.decider = &decider{
		replica: replica, wants: wants, memory: newMemory(), clock: newClock(), onDecision: options.OnDecision,
		session: newSession(replica, wants, &options),
	}
	var background context.Context
	background, g.cancel = context.WithCancel(context.Background())
	go g.run(background)
	if options.OnChange != nil {
		go g.callBack(background)
	}
	return g
}

// Decided returns the number of local decisions.
func (g *Gate) Decided() uint64 { return g.decided.Load() }

func (g *Gate) counts() *queuegatev1.GateCounts {
	return &queuegatev1.GateCounts{Decided: g.decided.Load(), Stale: g.decidedStale.Load()}
}

// Resets returns how often the server has reset this gate.
func (g *Gate) Resets() uint64 { return g.resets.Load() }

// State returns whether this gate decides.
func (g *Gate) State() State {
	now := g.replica.state.Load()
	switch {
	case g.isClosed.Load():
		return Closed
	case len(now.policies) == 0:
		return Connecting
	case !now.rights.decide:
		return Forbidden
	case int64(g.clock()) < g.session.leaseUntil.Load():
		return Live
	}
	return Expired
}

func (g *Gate) hasPolicy() bool { return len(g.replica.state.Load().policies) > 0 }

// Close releases the lease, closes the stream, and stops deciding.
func (g *Gate) Close() {
	isOpen := g.isOpen.Load()
	if g.isClosed.Swap(true) {
		return
	}
	g.mutex.Lock()
	g.reply = g.session.release(g.clock(), true)
	g.session.reset()
	g.mutex.Unlock()
	close(g.closing)
	signal(g.wake)
	if isOpen {
		select {
		case <-g.stopped:
		case <-time.After(releaseTime):
		}
	}
	g.cancel()
	<-g.stopped
}

func signal(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default: // already signalled
	}
}

func (g *Gate) callBack(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.changed:
			g.options.OnChange()
		}
	}
}

// opening returns the first message of a new stream.
func (g *Gate) opening() *queuegatev1.SyncRequest {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.reply = nil
	g.pongs = 0
	g.nextPing = 0
	return g.session.open()
}

// due returns the messages to send now, and the time until the next ones unless woken earlier.
func (g *Gate) due() ([]*queuegatev1.SyncRequest, time.Duration) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	var requests []*queuegatev1.SyncRequest
	if g.reply != nil {
		requests, g.reply = append(requests, g.reply), nil
	}
	now := g.clock()
	if g.isClosed.Load() {
		return requests, releaseTime
	}
	if now >= g.nextPing {
		g.nextPing = now + g.session.pingInterval
		requests = append(requests, g.session.ping(now, g.counts()))
	}
	for partition, users := range g.wants.take(now) {
		want := &queuegatev1.SyncWant{Partition: partition, Users: users}
		requests = append(requests,
			&queuegatev1.SyncRequest{Message: &queuegatev1.SyncRequest_Want{Want: want}})
	}
	return requests, g.nextPing - now
}

// receive applies a message from the server. lacksPolicy is whether a pong preceded any policy.
func (g *Gate) receive(response *queuegatev1.SyncResponse, lacksPolicy bool) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.isClosed.Load() {
		return nil
	}
	if opened := response.GetOpened(); opened != nil {
		g.grace.Store(0)
		g.hasAnswered = true
		g.log.opening(opened)
		if !opened.GetResumed() {
			g.noteReset()
		}
	}
	if response.GetPong() != nil && !lacksPolicy {
		g.pause = firstPause
		// After a single pong, the next message may still break the stream.
		if g.pongs++; g.pongs > 1 {
			g.log.recovery()
		}
	}
	answer, err := g.session.receive(response, g.clock())
	if err != nil {
		g.noteReset()
		g.session.dropEverything()
		return err
	}
	if answer != nil && g.reply.GetRelease() == nil { // nothing may replace a release
		g.reply = answer
		signal(g.wake)
	}
	return nil
}

func (g *Gate) dropEverything() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.noteReset()
	g.session.dropEverything()
}

// noteReset counts a reset if policies in use are about to be dropped.
func (g *Gate) noteReset() {
	if g.hasPolicy() {
		g.resets.Add(1)
	}
}

// noteEnd handles the end of a stream, and returns the time to wait before reconnecting.
func (g *Gate) noteEnd(err error) time.Duration {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if !g.isClosed.Load() {
		why := err
		var silent silentError
		if !errors.As(err, &silent) && !errors.Is(err, errEnded) {
			why = g.options.Explain(err, g.hasAnswered)
		}
		g.log.end(why)
	}
	var grace time.Duration
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled: // the server is unreachable or shutting down
		grace = g.options.Stale
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		g.session.reset()
	}
	g.grace.Store(int64(grace))
	pause := g.pause
	g.pause = min(2*pause, longestPause)
	return max(pause/2+rand.N(pause/2), min(retryDelay(err), maxRetry))
}

// retryDelay returns the time that the server asks to wait; 0 if it does not.
func retryDelay(err error) time.Duration {
	for _, each := range status.Convert(err).Details() {
		if info, is := each.(*errdetails.RetryInfo); is {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}
