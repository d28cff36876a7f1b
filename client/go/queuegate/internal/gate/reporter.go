package gate

import (
	"maps"
	"slices"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// maxReported is how many decisions one report may have.
const maxReported = 1_000

// A reporter reports the decisions of an outbox, one report after the other. All arrive at least once,
// except those that the server refuses, which are set aside. If the server ends the stream because of a
// report, the report is divided until the faulty decision is found. For one goroutine at a time.
type reporter struct {
	outbox *Outbox
	// groups are what is left of the oldest segment, in the order in which they are reported.
	groups   [][]*queuegatev1.LocalDecision
	inFlight uint64 // the number of the report with the first group; 0 if it has not been sent
	last     uint64
}

// restart reports on another stream, from the first decision that is not confirmed.
func (r *reporter) restart() { r.inFlight = 0 }

// next returns the next report; nil if there is nothing to report, or a report is to be confirmed.
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

// confirm takes the confirmation of a report.
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

// divide divides the report under way, for which the server has ended the stream; it sets a single
// decision aside.
func (r *reporter) divide(fault string) {
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
