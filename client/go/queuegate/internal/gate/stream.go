package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const (
	// silence is the time without a pong or a policy after which a stream is dead. It is shorter than a
	// lease, so that another stream can be opened before the lease expires.
	silence = 3 * time.Second
	// maxSilentLooks is the maximum number of consecutive ticks without progress.
	maxSilentLooks = 6
	// maxUnansweredLooks is the maximum number of consecutive ticks without a pong, since a server that
	// sends policies forever is useless.
	maxUnansweredLooks = int(maxTransfer / (silence / maxSilentLooks))
	// ReceiveLimit is gRPC's limit for messages on the stream. It differs from servers' limits, whose
	// errors look the same.
	ReceiveLimit = maxMessageBytes + 1
	// protocolViolated is the status of a stream with invalid messages. Servers do not use it.
	protocolViolated = codes.DataLoss
)

var errEnded = errors.New("the server closed it")

// isTooLarge returns whether the server has sent an oversized message.
func isTooLarge(err error) bool {
	limit := fmt.Sprintf("vs. %d)", ReceiveLimit)
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), limit)
}

// A silentError is the error of a stream whose server answers no pings, or sends no policy.
type silentError struct {
	length      time.Duration
	lacksPolicy bool
}

func (e silentError) Error() string {
	if e.lacksPolicy {
		return fmt.Sprintf("the server responds to pings but has sent no complete policy for %v", e.length)
	}
	return fmt.Sprintf("the server has not responded to a ping for %v", e.length)
}

func (e silentError) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.Error()) }

// A liveness is the watchdog's view of a stream.
type liveness struct {
	progress atomic.Bool // since the last tick
	pong     atomic.Bool // since the last tick
	silence  atomic.Int64
	// lacksPolicy is whether the last pong preceded a complete policy that the server has for this gate.
	// Such pongs are not progress.
	lacksPolicy atomic.Bool

	named    []string        // the partitions to follow; all if empty
	promised map[string]bool // the named partitions that exist on the server
}

// note records a message from the server. hasPolicy is whether this gate has a confirmed policy.
func (l *liveness) note(response *queuegatev1.SyncResponse, hasPolicy bool) {
	switch message := response.GetMessage().(type) {
	case *queuegatev1.SyncResponse_Opened:
		l.promised = map[string]bool{}
		for _, name := range l.named {
			if slices.Contains(message.Opened.GetPartitions(), name) {
				l.promised[name] = true
			}
		}
		l.progress.Store(true)
	case *queuegatev1.SyncResponse_Policy:
		if message.Policy.GetRemoved() {
			delete(l.promised, message.Policy.GetPartition())
		}
		l.progress.Store(true)
	case *queuegatev1.SyncResponse_Pong:
		isOwed := len(l.named) == 0 || len(l.promised) > 0
		l.lacksPolicy.Store(isOwed && !hasPolicy)
		if l.lacksPolicy.Load() {
			return
		}
		l.pong.Store(true)
		l.progress.Store(true)
	}
}

// run keeps a stream open until the context is done.
func (g *Gate) run(ctx context.Context) {
	defer close(g.stopped)
	for {
		select {
		case <-g.closing:
			return
		case <-time.After(g.noteEnd(g.stream(ctx))):
		}
	}
}

// stream opens a stream, applies its messages until it ends, and returns the error that ended it.
func (g *Gate) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	look := liveness{named: g.options.Partitions}
	looks := time.NewTicker(silence / maxSilentLooks)
	defer looks.Stop()
	go watch(ctx, looks.C, &look, cancel)
	stream, err := g.options.Open(ctx)
	if err != nil {
		return err
	}
	g.isOpen.Store(true)
	defer g.isOpen.Store(false)
	var sending sync.WaitGroup
	defer sending.Wait()
	defer cancel()
	sending.Add(1)
	go func() {
		defer sending.Done()
		g.send(ctx, stream)
	}()
	for {
		response, err := stream.Recv()
		if length := look.silence.Load(); length > 0 {
			return silentError{time.Duration(length), look.lacksPolicy.Load()}
		}
		if errors.Is(err, io.EOF) {
			return errEnded
		}
		if isTooLarge(err) {
			g.dropEverything()
			return status.Errorf(protocolViolated,
				"the server does not follow the protocol: a message has more than %d bytes", maxMessageBytes)
		}
		if err != nil {
			return err
		}
		look.note(response, g.hasPolicy())
		if err := g.receive(response, look.lacksPolicy.Load()); err != nil {
			return status.Errorf(protocolViolated, "the server does not follow the protocol: %v", err)
		}
	}
}

// watch calls end if the server is silent for too long. It counts ticks rather than time, because a ticker
// drops ticks while the process is suspended, and messages from the server may be unread.
func watch(ctx context.Context, looks <-chan time.Time, stream *liveness, end func()) {
	for silent, unanswered := 0, 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-looks:
		}
		silent, unanswered = silent+1, unanswered+1
		if stream.progress.Swap(false) {
			silent = 0
		}
		if stream.pong.Swap(false) {
			unanswered = 0
		}
		switch {
		case unanswered >= maxUnansweredLooks:
			stream.silence.Store(int64(maxTransfer))
		case silent >= maxSilentLooks:
			stream.silence.Store(int64(silence))
		default:
			continue
		}
		end()
		return
	}
}

// send sends messages when they are due, until the stream ends.
func (g *Gate) send(ctx context.Context, stream Stream) {
	if stream.Send(g.opening()) != nil {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		requests, idle := g.due()
		for _, request := range requests {
			if stream.Send(request) != nil {
				return // Recv returns the error
			}
		}
		if len(requests) > 0 {
			continue // more may be due by now
		}
		timer.Reset(idle)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-g.wake:
		}
	}
}
