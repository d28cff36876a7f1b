package gate

import (
	"context"
	"testing"
	"time"
)

// A stream without progress ends; one that is over is not watched any more.
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
