package gate

import (
	"context"
	"testing"
	"time"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// A stream without progress is closed, and a closed stream is no longer watched.
func TestAStreamWithoutProgressEnds(t *testing.T) {
	var stream liveness
	looks, ended := make(chan time.Time), make(chan struct{})
	go watch(t.Context(), looks, &stream, func() { close(ended) })
	for range 3 {
		stream.progress.Store(true)
		for range maxSilentLooks - 1 {
			select {
			case looks <- time.Now():
			case <-ended:
				t.Fatal("there was progress")
			}
		}
	}
	for isOver := false; !isOver; {
		select {
		case looks <- time.Now():
		case <-ended:
			isOver = true
		case <-time.After(time.Minute):
			t.Fatal("it has not ended")
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	watch(over, looks, &stream, func() { t.Error("it is over") })
}

// Pongs without a policy do not keep a stream alive, unless the server has none for the gate.
func TestPongsWithoutAPolicyDoNotKeepAStream(t *testing.T) {
	removed := func(name string) *queuegatev1.SyncResponse {
		return part(&queuegatev1.PolicyPart{Partition: name, First: true, Last: true, Removed: true})
	}
	has := func(names ...string) *queuegatev1.SyncResponse {
		return opened(func(o *queuegatev1.SyncOpened) { o.Partitions = names })
	}
	for name, test := range map[string]struct {
		named     []string
		before    []*queuegatev1.SyncResponse
		hasPolicy bool
		endless   bool
	}{
		"all partitions":                  {before: []*queuegatev1.SyncResponse{has("default")}},
		"all of none":                     {before: []*queuegatev1.SyncResponse{has()}},
		"a partition of the server":       {named: []string{"gpu"}, before: []*queuegatev1.SyncResponse{has("gpu")}},
		"one of two":                      {named: []string{"gpu", "cpu"}, before: []*queuegatev1.SyncResponse{has("gpu", "cpu"), removed("cpu")}},
		"a partition that it lacks":       {named: []string{"gpu"}, before: []*queuegatev1.SyncResponse{has("default")}, endless: true},
		"a partition that it has removed": {named: []string{"gpu"}, before: []*queuegatev1.SyncResponse{has("gpu"), removed("gpu")}, endless: true},
		"with a policy":                   {before: []*queuegatev1.SyncResponse{has("default")}, hasPolicy: true, endless: true},
	} {
		t.Run(name, func(t *testing.T) {
			stream := liveness{named: test.named}
			for _, response := range test.before {
				stream.note(response, false)
			}
			looks, ended := make(chan time.Time), make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go watch(ctx, looks, &stream, func() { close(ended) })
			for number := range 3 * maxSilentLooks {
				stream.note(pong(1), test.hasPolicy)
				select {
				case looks <- time.Time{}:
				case <-ended:
					if test.endless || number < maxSilentLooks-1 || !stream.lacksPolicy.Load() {
						t.Error("it has ended after looks:", number)
					}
					return
				case <-time.After(time.Minute):
					t.Fatal("it is not watched")
				}
			}
			if !test.endless {
				t.Error("it has not ended")
			}
		})
	}
}

// Nor do `opened` messages and removals.
func TestGreetingsWithoutAPolicyDoNotKeepAStream(t *testing.T) {
	var stream liveness
	looks, ended := make(chan time.Time), make(chan struct{})
	go watch(t.Context(), looks, &stream, func() { close(ended) })
	for range maxUnansweredLooks + 1 {
		stream.note(opened(nil), false)
		stream.note(part(&queuegatev1.PolicyPart{Partition: "default", First: true, Last: true, Removed: true}), false)
		stream.note(pong(1), false)
		select {
		case looks <- time.Time{}:
		case <-ended:
			return
		case <-time.After(time.Minute):
			t.Fatal("it is not watched")
		}
	}
	t.Error("it has not ended")
}
