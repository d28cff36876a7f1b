package gate

import (
	"maps"
	"slices"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// maxReported is the maximum number of decisions in a report.
const maxReported = 1_000

// A reporter reports an outbox's decisions, one report at a time. Decisions are delivered at least once,
// except those rejected by the server, which are set aside. A report that closes the stream is split
// until the faulty decision is isolated. Not safe for concurrent use.
type reporter struct {
	outbox *Outbox
	// groups are the oldest segment's unconfirmed decisions in order, grouped by report.
	groups   [][]*queuegatev1.LocalDecision
	inFlight uint64 // the ID of the report that contains the first group; 0 if it has not been sent
	last     uint64
}

// restart switches to another stream, starting with the first unconfirmed decision.
func (r *reporter) restart() { r.inFlight = 0 }

// next returns the next report; nil if there are no decisions to report, or a report is unconfirmed.
func (r *reporter) next() *queuegatev1.SyncRequest {
	if r.inFlight != 0 {
		return nil
	}
	if len(r.groups) == 0 {
		decisions := r.outbox.oldest()
		if len(decisions) == 0 {
			return nil
		}
		r.groups = slices.Collect(slices.Chunk(decisions, maxReported))
	}
	r.last++
	r.inFlight = r.last
	report := &queuegatev1.SyncReport{Id: r.last, Decisions: r.groups[0]}
	return &queuegatev1.SyncRequest{Message: &queuegatev1.SyncRequest_Report{Report: report}}
}

// confirm handles the confirmation of a report.
func (r *reporter) confirm(answer *queuegatev1.SyncReported) {
	if r.inFlight == 0 || answer.GetId() != r.inFlight {
		return
	}
	group := r.groups[0]
	faults := map[uint32]string{}
	for _, refused := range answer.GetRefused() {
		if int(refused.GetIndex()) < len(group) {
			faults[refused.GetIndex()] = refused.GetFault()
		}
	}
	if len(faults) > 0 {
		var rejected []*queuegatev1.LocalDecision
		indexes := slices.Sorted(maps.Keys(faults))
		for _, index := range indexes {
			rejected = append(rejected, group[index])
		}
		r.outbox.reject(rejected, faults[indexes[0]])
	}
	r.outbox.confirm(len(group) - len(faults))
	r.drop()
}

// split splits the report in flight, which closed the stream, or sets aside a single decision.
func (r *reporter) split(fault string) {
	if r.inFlight == 0 {
		return
	}
	group := r.groups[0]
	if half := len(group) / 2; half > 0 {
		r.inFlight = 0
		r.groups = slices.Replace(r.groups, 0, 1, group[:half], group[half:])
		return
	}
	r.outbox.reject(group, fault)
	r.drop()
}

func (r *reporter) drop() {
	r.inFlight = 0
	if r.groups = r.groups[1:]; len(r.groups) == 0 {
		r.outbox.removeOldest()
	}
}
