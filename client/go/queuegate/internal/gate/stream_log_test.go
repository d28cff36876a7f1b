package gate

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// Each event is logged once, until a stream recovers or the server permits the gate to decide.
func TestWhatIsLoggedOfStreams(t *testing.T) {
	previous, logged := slog.Default(), &bytes.Buffer{}
	slog.SetDefault(slog.New(slog.NewTextHandler(logged, nil)))
	t.Cleanup(func() { slog.SetDefault(previous) })
	log := newStreamLog([]string{"a", "b"})
	greet := func(decide bool, partitions ...string) func() {
		return func() { log.opening(&queuegatev1.SyncOpened{LocalDecisions: decide, Partitions: partitions}) }
	}
	end := func(why string) func() { return func() { log.end(errors.New(why)) } }
	for number, each := range []struct {
		act  func()
		want string // empty if nothing is logged
	}{
		{greet(true, "a"), "missing=[b] has=[a]"},
		{greet(true), "missing=[a] has=[]"},
		{greet(true), ""},
		{greet(false, "a", "b"), "sync.local_decisions"},
		{greet(false), ""},
		{greet(true), ""},
		{greet(false), "sync.local_decisions"},
		{log.recovery, ""},
		{end("one"), "one"},
		{end("two"), "two"},
		{end("one"), ""},
		{log.recovery, "is connected again"},
		{end("one"), "one"},
	} {
		logged.Reset()
		each.act()
		if got := logged.String(); !strings.Contains(got, each.want) || (got == "") != (each.want == "") {
			t.Errorf("%d: %q instead of %q", number, got, each.want)
		}
	}
	logged.Reset()
	for number := range 3 * maxLoggedEnds {
		log.end(fmt.Errorf("attempt %d", number))
	}
	if count := strings.Count(logged.String(), "\n"); count != maxLoggedEnds-1 {
		t.Error(count)
	}
	logged.Reset()
	var names []string
	for number := range maxLogged + 1 {
		names = append(names, fmt.Sprintf("p%02d", number))
	}
	log = newStreamLog([]string{"hadop"})
	greet(true, names...)()
	if got := logged.String(); !strings.Contains(got, `missing=[hadop] has="[p00 p01 p02 p03 p04 p05 p06 p07 p08 p09 ...]"`) {
		t.Error(got)
	}
}
