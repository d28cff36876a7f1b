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
	// silence is how long a stream may be without a pong or a policy before it is taken for dead: the
	// server hangs, or takes no messages. It is less than a lease, so that another stream can be opened
	// before that ends.
	silence = 3 * time.Second
	// maxSilentLooks is how often in a row the watchdog may look and see no progress.
	maxSilentLooks = 6
	// maxUnansweredLooks is how often in a row the watchdog may look and see no pong, even while
	// policies come: a server that sends them without end is of no use.
	maxUnansweredLooks = int(maxTransfer / (silence / maxSilentLooks))
	// ReceiveLimit is the limit of gRPC for messages on the stream. It differs from the limits of
	// servers, whose errors look the same.
	ReceiveLimit = maxMessageBytes + 1
	// protocolViolated is how a stream ends whose messages make no sense. Servers do not use it.
	protocolViolated = codes.DataLoss
)

var errEnded = errors.New("the server closed it")

// isTooLarge returns whether the server has sent too large a message.
func isTooLarge(err error) bool {
	limit := fmt.Sprintf("vs. %d)", ReceiveLimit)
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), limit)
}

// A silentError is how a stream ends whose server does not answer pings, or sends no policy.
type silentError struct {
	length      time.Duration
	lacksPolicy bool
}

func (e silentError) Error() string {
	if e.lacksPolicy {
		return fmt.Sprintf("the server answers pings, but has sent no complete policy for %v", e.length)
	}
	return fmt.Sprintf("the server has not answered a ping for %v", e.length)
}

func (e silentError) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.Error()) }

// A liveness is what the watchdog knows about a stream.
type liveness struct {
	progress atomic.Bool // since the last look
	pong     atomic.Bool // since the last look
	silence  atomic.Int64
	// lacksPolicy is whether the server has answered a ping before it had sent any complete policy,
	// though it has one for this gate. Such pongs do not count.
	lacksPolicy atomic.Bool

	named    []string        // the partitions to follow; none: all
	promised map[string]bool // those among them that the server has
}

// note notes a message of the server; hasPolicy is whether this gate has a policy that the server has
// confirmed.
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

// run keeps a stream open.
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

// stream opens a stream and applies its messages until it ends; it returns why it has ended.
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

// watch calls end when the server has not answered a ping for too long. It counts ticks rather than time: a
// ticker drops the ticks that a suspended process misses, and the server's answers may be waiting to be read.
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

// send sends messages when they are due, for as long as the stream lasts.
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
				return // Recv says why
			}
		}
		if len(requests) > 0 {
			continue // others may be due meanwhile
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
