package gate

import (
	"log/slog"
	"slices"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const (
	maxLoggedEnds = 8  // distinct reasons before a stream recovers
	maxLogged     = 10 // partitions of the server

	forbidden = "it may not decide locally: either sync.local_decisions is set to forbid, or this version of the" +
		" client does not support the server's rules"
)

// A streamLog logs the events of a gate's streams. Repeated events are logged once.
type streamLog struct {
	partitions []string // the named partitions

	ends        map[string]bool // the reasons logged since the last stable stream
	missing     map[string]bool // named partitions missing from the server
	isForbidden bool            // whether the server forbids the gate to decide
}

func newStreamLog(partitions []string) *streamLog {
	return &streamLog{partitions: partitions, ends: map[string]bool{}, missing: map[string]bool{}}
}

// opening logs named partitions missing from the server, and why the gate may not decide.
func (l *streamLog) opening(opened *queuegatev1.SyncOpened) {
	var missing []string
	for _, name := range l.partitions {
		if !l.missing[name] && !slices.Contains(opened.GetPartitions(), name) {
			missing = append(missing, name)
			l.missing[name] = true
		}
	}
	if len(missing) > 0 {
		slog.Warn("a gate follows partitions that the server does not have",
			"missing", missing, "has", listed(opened.GetPartitions()))
	}
	isForbidden := !opened.GetLocalDecisions()
	if isForbidden && !l.isForbidden {
		slog.Warn("a gate sends every check to the server", "reason", forbidden)
	}
	l.isForbidden = isForbidden
}

// end logs why a stream ended, unless that was logged since the last stable stream.
func (l *streamLog) end(err error) {
	if end := textToLog(err.Error()); !l.ends[end] && len(l.ends) < maxLoggedEnds {
		l.ends[end] = true
		slog.Warn("a gate's stream has ended", "error", end)
	}
}

// recovery logs the recovery from earlier failures, if any.
func (l *streamLog) recovery() {
	if len(l.ends) > 0 {
		clear(l.ends)
		slog.Info("a gate's stream is connected again")
	}
}

func listed(partitions []string) []string {
	if len(partitions) <= maxLogged {
		return partitions
	}
	return append(slices.Clone(partitions[:maxLogged]), "...")
}
