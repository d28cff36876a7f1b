package gate

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A stream without progress ends; one that is over is not watched any more.
func TestAStreamWithoutProgressEnds(t *testing.T) {
	var progress atomic.Bool
	looks, ended := make(chan time.Time), make(chan struct{})
	go watch(t.Context(), looks, &progress, func() { close(ended) })
	for range 3 {
		progress.Store(true)
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
	watch(over, looks, &progress, func() { t.Error("it is over") })
}

// Named partitions that the server does not have are logged once.
func TestMissingPartitionsAreLogged(t *testing.T) {
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	g := &Gate{options: Options{Partitions: []string{"a", "b", "c"}}, missing: map[string]bool{}}
	for _, has := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "d"}, {"b"}} {
		g.logMissing(has)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 2 ||
		!strings.Contains(log.String(), `missing="[b c]" has=[a]`) ||
		!strings.Contains(log.String(), "missing=[a] has=[b]") {
		t.Error(log.String())
	}
}
