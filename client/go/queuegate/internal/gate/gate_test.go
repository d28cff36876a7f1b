package gate

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// A stream without progress ends; one that is over is not watched any more.
func TestAStreamWithoutProgressEnds(t *testing.T) {
	var progress atomic.Bool
	progress.Store(true)
	ended := make(chan struct{})
	start := time.Now()
	go watch(t.Context(), &progress, func() { close(ended) })
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it has not ended")
	}
	if passed := time.Since(start); passed < silence {
		t.Error(passed)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	watch(over, &progress, func() { t.Error("it is over") })
}
