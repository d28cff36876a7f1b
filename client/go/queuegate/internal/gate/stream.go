package gate

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// silence is how long a stream may be without a pong or a policy before it is taken for dead: the server
// hangs, or takes no messages. It is less than a lease, so that another stream can be opened before
// that ends.
const silence = 3 * time.Second

// maxSilentLooks is how often in a row the watchdog may look and see no progress.
const maxSilentLooks = 6

// protocolViolated is how a stream ends whose messages make no sense. Servers do not use it.
const protocolViolated = codes.DataLoss

var (
	errSilent = status.Errorf(codes.Unavailable, "the server has answered no ping for %v", silence)
	errEnded  = errors.New("the server has ended it")
)

// run keeps a stream open.
func (g *Gate) run(ctx context.Context) {
	defer close(g.stopped)
	for {
		select {
		case <-g.closing:
			return
		case <-time.After(g.ended(g.stream(ctx))):
		}
	}
}

// stream opens a stream and applies its messages until it ends; it returns why it has ended.
func (g *Gate) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var isSilent, progress atomic.Bool
	looks := time.NewTicker(silence / maxSilentLooks)
	defer looks.Stop()
	go watch(ctx, looks.C, &progress, func() {
		isSilent.Store(true)
		cancel()
	})
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
		if isSilent.Load() {
			return errSilent
		}
		if errors.Is(err, io.EOF) {
			return errEnded
		}
		if err != nil {
			return err
		}
		if isProgress(response) {
			progress.Store(true)
		}
		if err := g.receive(response); err != nil {
			return status.Errorf(protocolViolated, "the server does not follow the protocol: %v", err)
		}
	}
}

// watch calls end once there is no progress for too long. It counts looks, not time: those that this
// process missed while it was held up do not count, since answers of the server may wait to be read. A
// ticker does not deliver them later.
func watch(ctx context.Context, looks <-chan time.Time, progress *atomic.Bool, end func()) {
	for silent := 0; silent < maxSilentLooks; silent++ {
		select {
		case <-ctx.Done():
			return
		case <-looks:
		}
		if progress.Swap(false) {
			silent = -1
		}
	}
	end()
}

// send sends messages when they are due, for as long as the stream lasts.
func (g *Gate) send(
	ctx context.Context,
	stream grpc.BidiStreamingClient[queuegatev1.SyncRequest, queuegatev1.SyncResponse],
) {
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

// isProgress returns whether a message shows that the server takes messages and works on them.
func isProgress(response *queuegatev1.SyncResponse) bool {
	return response.GetOpened() != nil || response.GetPong() != nil || response.GetPolicy() != nil
}
