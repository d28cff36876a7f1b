// Package gate keeps a copy of a server's policies and of users' groups current, and decides from
// it for as long as the server's lease allows.
package gate

import (
	"context"
	"errors"
	"math/rand/v2"
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

// Pauses before a stream is opened again.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// releaseTime is how long a gate that is closed waits until the server knows that its lease has ended.
const releaseTime = 500 * time.Millisecond

// reportInterval is how often decisions are reported at least.
const reportInterval = 200 * time.Millisecond

// State says whether a gate decides by itself.
type State int

// The states.
const (
	Connecting State = iota // no policy decides yet
	Live
	Expired   // the lease has ended
	Forbidden // the server does not let it decide
	Closed
)

// Options of a gate.
type Options struct {
	// Open opens a stream.
	Open func(context.Context) (
		grpc.BidiStreamingClient[queuegatev1.SyncRequest, queuegatev1.SyncResponse], error)
	// Explain returns the error for the end of a stream, as callers of the client know it. The
	// server of this gate may have answered before.
	Explain func(err error, hasAnswered bool) error
	// Name is what the server calls this gate.
	Name string
	// Partitions are those to follow. None: all.
	Partitions []string
	// Stale is how long old state decides while the server cannot be reached.
	Stale time.Duration
	// OnChange is called after the gate has switched to another policy; calls do not overlap. May be nil.
	OnChange func()
	// Outbox keeps decisions until they have been reported. Nil: they cannot be reported.
	Outbox *Outbox
}

// A Gate decides by itself while it may.
type Gate struct {
	options  Options
	decider  *decider
	changed  chan struct{}
	wake     chan struct{}
	cancel   context.CancelFunc
	closing  chan struct{}
	stopped  chan struct{}
	isClosed atomic.Bool
	isOpen   atomic.Bool // a stream: the server may count a lease, also before this gate is live
	resets   atomic.Uint64

	mutex       sync.Mutex // of the fields below, and of the session
	session     *session
	nextPing    time.Duration
	answer      *queuegatev1.SyncRequest // to be sent
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
	held := newReplica(len(options.Partitions) > 0, func() { signal(g.changed) })
	wanted := newWants(func() { signal(g.wake) })
	g.session = newSession(held, wanted, options.Name, options.Partitions, options.Outbox != nil)
	g.decider = &decider{
		replica: held, session: g.session, wants: wanted, memory: newMemory(), outbox: options.Outbox,
		clock: newClock(),
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

// Decide answers a question; false if the server must be asked.
func (g *Gate) Decide(question *Question) (Answer, bool) { return g.decider.decide(question) }

// Queues returns the queues at and below that of a question that its user may use; false if the
// server must be asked.
func (g *Gate) Queues(question *Question) ([]string, bool) { return g.decider.queues(question) }

// Decided returns how many questions were answered here.
func (g *Gate) Decided() uint64 { return g.decider.decided.Load() }

// Resets returns how often the server has reset this gate.
func (g *Gate) Resets() uint64 { return g.resets.Load() }

// State says whether this gate decides by itself.
func (g *Gate) State() State {
	now := g.decider.replica.state.Load()
	switch {
	case g.isClosed.Load():
		return Closed
	case len(now.policies) == 0:
		return Connecting
	case !now.rights.decide:
		return Forbidden
	case int64(g.decider.clock()) < g.session.leaseUntil.Load():
		return Live
	}
	return Expired
}

func (g *Gate) hasPolicy() bool { return len(g.decider.replica.state.Load().policies) > 0 }

// Close gives up the lease, ends the stream, and decides nothing any more.
func (g *Gate) Close() {
	isOpen := g.isOpen.Load()
	if g.isClosed.Swap(true) {
		return
	}
	g.mutex.Lock()
	g.answer = g.session.release(g.decider.clock())
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
	g.answer = nil
	g.pongs = 0
	g.nextPing = 0
	g.reports = false
	if g.reporter != nil {
		g.reporter.restart()
	}
	return g.session.open()
}

// due returns the messages to send now, and how long there is nothing to send unless this gate is
// woken.
func (g *Gate) due() ([]*queuegatev1.SyncRequest, time.Duration) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	var requests []*queuegatev1.SyncRequest
	if g.answer != nil {
		requests, g.answer = append(requests, g.answer), nil
	}
	now := g.decider.clock()
	if g.isClosed.Load() {
		return requests, releaseTime
	}
	if now >= g.nextPing {
		g.nextPing = now + g.session.pingInterval
		requests = append(requests, g.session.ping(now))
	}
	for partition, users := range g.session.wants.take(now) {
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
		g.decider.grace.Store(0)
		g.hasAnswered = true
		g.log.opened(opened)
		if !opened.GetResumed() {
			g.noteReset()
		}
	}
	if response.GetPong() != nil && !lacksPolicy {
		g.pause = firstPause // streams that end before it are opened less and less often
		// A server may answer a ping, and end each stream by what it is sent then: the second counts.
		if g.pongs++; g.pongs > 1 {
			g.log.lasts()
		}
		// Not earlier: the gate decides even if its reports end streams.
		g.reports = g.reporter != nil && g.decider.replica.state.Load().rights.report
	}
	if reported := response.GetReported(); reported != nil && g.reporter != nil {
		g.reporter.confirmed(reported)
		signal(g.wake)
	}
	answer, err := g.session.receive(response, g.decider.clock())
	if err != nil {
		g.noteReset()
		g.session.dropEverything()
		return err
	}
	if answer != nil && g.answer.GetRelease() == nil { // after a release nothing counts
		g.answer = answer
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

// ended notes why a stream has ended, and returns how long to wait before the next one.
func (g *Gate) ended(err error) time.Duration {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if !g.isClosed.Load() {
		why := err
		var silent silentError
		if !errors.As(err, &silent) && !errors.Is(err, errEnded) {
			why = g.options.Explain(err, g.hasAnswered)
		}
		g.log.ended(why)
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
	g.decider.grace.Store(int64(grace))
	pause := g.pause
	g.pause = min(2*pause, longestPause)
	return max(pause/2+rand.N(pause/2), min(retryDelay(err), maxRetry))
}

// retryDelay returns after what time the server wants to be asked again; zero if it does not say.
func retryDelay(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if retry, is := detail.(*errdetails.RetryInfo); is {
			return retry.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// isAboutReport returns whether a stream has ended because of a report. No other message is long.
func isAboutReport(err error) bool {
	given := status.Convert(err)
	switch given.Code() {
	case codes.InvalidArgument:
		for _, detail := range given.Details() {
			if request, is := detail.(*errdetails.BadRequest); is {
				for _, violation := range request.GetFieldViolations() {
					if strings.HasPrefix(violation.GetField(), "report") {
						return true
					}
				}
			}
		}
	case codes.ResourceExhausted:
		return strings.Contains(given.Message(), "larger than max")
	}
	return false
}
