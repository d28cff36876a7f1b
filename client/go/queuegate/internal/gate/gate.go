// Package gate keeps a copy of a server's policies and of users' groups current, and decides from
// it for as long as the server's lease allows.
package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
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
	firstPause   = 100 * time.Millisecond // before a stream is opened again; doubles up to the longest
	longestPause = 2 * time.Second
	// releaseTime is how long Close waits until the server knows that the lease has ended.
	releaseTime = 500 * time.Millisecond
	// reportInterval is the longest pause between reports while decisions wait for one.
	reportInterval = 200 * time.Millisecond
)

// State says whether a gate decides.
type State string

// The states.
const (
	Connecting State = "connecting" // no policy decides yet
	Live       State = "live"
	Expired    State = "expired"   // the lease has ended
	Forbidden  State = "forbidden" // the server does not let it decide
	Closed     State = "closed"
)

// A Stream is the connection of a gate to its server.
type Stream = grpc.BidiStreamingClient[queuegatev1.SyncRequest, queuegatev1.SyncResponse]

// Options of a gate. GateConfig in the package queuegate explains the ones it shares.
type Options struct {
	Open func(context.Context) (Stream, error)
	// Explain returns the error for the end of a stream, as callers of the client know it. The
	// server of this gate may have answered before.
	Explain    func(err error, hasAnswered bool) error
	Name       string
	Partitions []string
	Stale      time.Duration
	OnChange   func()  // nil: nothing is called
	Outbox     *Outbox // nil: decisions cannot be reported
}

// A Gate decides while its server's lease lasts.
type Gate struct {
	*decider
	options  Options
	changed  chan struct{}
	wake     chan struct{}
	cancel   context.CancelFunc
	closing  chan struct{}
	stopped  chan struct{}
	isClosed atomic.Bool
	isOpen   atomic.Bool // whether there is a stream: the server may count a lease before this gate is live
	resets   atomic.Uint64

	mutex       sync.Mutex // of the fields below, and of the session
	nextPing    time.Duration
	reply       *queuegatev1.SyncRequest // to be sent
	pause       time.Duration
	pongs       int // on this stream
	log         *streamLog
	hasAnswered bool      // on any stream
	reporter    *reporter // nil: there is no outbox
	reports     bool      // whether the server of this stream takes them now
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
		log:     newStreamLog(options.Partitions, options.Outbox != nil),
	}
	replica := newReplica(len(options.Partitions) > 0, func() { signal(g.changed) })
	wants := newWants(func() { signal(g.wake) })
	g.decider = &decider{
		replica: replica, wants: wants, memory: newMemory(), outbox: options.Outbox, clock: newClock(),
		session: newSession(replica, wants, options.Name, options.Partitions, options.Outbox != nil),
	}
	if options.Outbox != nil {
		g.reporter = &reporter{outbox: options.Outbox}
	}
	var background context.Context
	background, g.cancel = context.WithCancel(context.Background())
	go g.run(background)
	if options.OnChange != nil {
		go g.callBack(background)
	}
	return g
}

// Decided returns how many questions were answered here.
func (g *Gate) Decided() uint64 { return g.decided.Load() }

// Resets returns how often the server has reset this gate.
func (g *Gate) Resets() uint64 { return g.resets.Load() }

// State says whether this gate decides.
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

// Close gives up the lease, ends the stream, and decides nothing any more.
func (g *Gate) Close() {
	isOpen := g.isOpen.Load()
	if g.isClosed.Swap(true) {
		return
	}
	g.mutex.Lock()
	g.reply = g.session.release(g.clock())
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
	default: // it is signalled already
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
	g.reports = false
	if g.reporter != nil {
		g.reporter.restart()
	}
	return g.session.open()
}

// due returns the messages to send now, and how long to wait for the next ones unless woken.
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
		requests = append(requests, g.session.ping(now))
	}
	for partition, users := range g.wants.take(now) {
		want := &queuegatev1.SyncWant{Partition: partition, Users: users}
		requests = append(requests,
			&queuegatev1.SyncRequest{Message: &queuegatev1.SyncRequest_Want{Want: want}})
	}
	idle := g.nextPing - now
	if g.reports {
		if report := g.reporter.next(); report != nil {
			requests = append(requests, report)
		}
		idle = min(idle, reportInterval)
	}
	return requests, idle
}

// receive applies a message of the server; lacksPolicy is whether a pong came without any policy.
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
		g.pause = firstPause // without it, streams are opened less and less often
		// A server may answer a ping and then end each stream because of the next message: the second counts.
		if g.pongs++; g.pongs > 1 {
			g.log.recovery()
		}
		// Not earlier, so that the gate decides even if its reports end streams.
		g.reports = g.reporter != nil && g.replica.state.Load().rights.report
	}
	if reported := response.GetReported(); reported != nil && g.reporter != nil {
		g.reporter.confirm(reported)
		signal(g.wake)
	}
	answer, err := g.session.receive(response, g.clock())
	if err != nil {
		g.noteReset()
		g.session.dropEverything()
		return err
	}
	if answer != nil && g.reply.GetRelease() == nil { // after a release nothing counts
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

// noteReset counts that the policies that decide are dropped, if there are any.
func (g *Gate) noteReset() {
	if g.hasPolicy() {
		g.resets.Add(1)
	}
}

// noteEnd notes why a stream has ended, and returns how long to wait before the next one.
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
	case codes.Unavailable, codes.Canceled: // the server is away, or shuts down
		grace = g.options.Stale
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		g.session.reset()
	}
	if g.reporter != nil && isAboutReport(err) {
		g.reporter.divide(status.Convert(err).Message())
	}
	g.grace.Store(int64(grace))
	pause := g.pause
	g.pause = min(2*pause, longestPause)
	retryDelay := detail[*errdetails.RetryInfo](err).GetRetryDelay().AsDuration() // 0 without one
	return max(pause/2+rand.N(pause/2), min(retryDelay, maxRetry))
}

// isAboutReport returns whether a stream has ended because of a report. No other message is long.
func isAboutReport(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument:
		isOfReport := func(violation *errdetails.BadRequest_FieldViolation) bool {
			return strings.HasPrefix(violation.GetField(), "report")
		}
		return slices.ContainsFunc(detail[*errdetails.BadRequest](err).GetFieldViolations(), isOfReport)
	case codes.ResourceExhausted:
		return strings.Contains(status.Convert(err).Message(), "larger than max")
	}
	return false
}

// detail returns the first detail of a type; nil if there is none.
func detail[Detail any](err error) (none Detail) {
	for _, each := range status.Convert(err).Details() {
		if match, is := each.(Detail); is {
			return match
		}
	}
	return none
}
