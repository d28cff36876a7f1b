package gate

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
)

// A Question is one about access to a queue.
type Question struct {
	User, Queue, Partition string
	Access                 policy.Access
	Groups                 []string
	NoGroups               bool // the user has none; otherwise, empty Groups are looked up
	RealUser               string
}

// An Answer is the decision about a question.
type Answer struct {
	policy.Decision
	Revision  uint64
	Evaluated string // the nearest existing ancestor of a queue that does not exist
	Stale     bool   // whether the lease no longer covers the state that decided
}

// A decider answers what a gate can answer itself. Any number of goroutines may share it.
type decider struct {
	replica *replica
	session *session
	wants   *wants
	memory  *memory
	outbox  *Outbox // nil: decisions are not reported
	clock   func() time.Duration
	// grace is how long after the end of the lease old state decides.
	grace   atomic.Int64
	decided atomic.Uint64
}

// Decide answers a question; false if the server must be asked.
func (d *decider) Decide(question *Question) (Answer, bool) {
	from := d.replica.state.Load()
	if !from.rights.decide {
		return Answer{}, false
	}
	slot := d.memory.slot(question)
	earlier := slot.Load()
	if earlier != nil && earlier.generation == from.generation && earlier.isOf(question) {
		if answer, holds := d.answer(from, earlier, question); holds {
			return answer, true
		}
	}
	fresh := d.evaluate(from, question)
	if fresh == nil {
		return Answer{}, false
	}
	slot.Store(fresh)
	return d.answer(from, fresh, question)
}

// answer returns the decision of a memo if it may be used, once it is stored for a report.
func (d *decider) answer(from *state, memo *memo, question *Question) (Answer, bool) {
	answer, holds := d.check(from, memo)
	if holds && from.rights.report {
		local := from.find(question.Partition, d.replica.partial)
		if !d.outbox.add(question, local.name, answer) {
			return Answer{}, false
		}
		answer, holds = d.check(from, memo) // writing may have taken long
	}
	if holds {
		d.decided.Add(1)
	}
	return answer, holds
}

// check returns the decision of a memo if its state is still the present one and there is a lease.
func (d *decider) check(from *state, memo *memo) (Answer, bool) {
	validUntil, grace := time.Duration(d.session.leaseUntil.Load()), time.Duration(d.grace.Load())
	if memo.entry != nil {
		validUntil = min(validUntil, memo.entry.expires())
	}
	if d.replica.state.Load() != from {
		return Answer{}, false
	}
	// The clock comes last: this process may have been stopped until now.
	now := d.clock()
	if memo.entry != nil && memo.entry.isDue(now) {
		d.wants.add(memo.entry.key, now)
	}
	if now >= validUntil+grace {
		return Answer{}, false
	}
	return Answer{memo.decision, memo.revision, memo.evaluated, now >= validUntil}, true
}

// evaluate decides from a state; nil if the server must be asked.
func (d *decider) evaluate(from *state, question *Question) *memo {
	local, place := d.locate(from, question)
	if local == nil {
		return nil
	}
	groups, areGiven := from.given(local, question)
	user, realUser := question.User, question.RealUser
	decision, evaluated, known := local.partition.Decide(place, user, groups, areGiven, realUser)
	var entry *userEntry
	if !known {
		if entry = d.entry(local, user); entry == nil {
			return nil
		}
		decision, evaluated, _ = local.partition.Decide(place, user, entry.groups, true, realUser)
		if !entry.exists {
			decision = policy.Unknown
		}
	}
	fresh := newMemo(question, local.name, place.Path(), entry)
	fresh.decision, fresh.revision, fresh.evaluated = decision, local.revision, evaluated
	fresh.generation = from.generation
	if subject := decision.MatchedSubject; subject == user {
		fresh.decision.MatchedSubject = fresh.user
	} else if fresh.extras != nil {
		fresh.decision.MatchedSubject = strings.Clone(subject)
	}
	return fresh
}

// Queues returns the queues at and below that of a question that its user may use; false if the server
// must be asked, as it must where decisions are reported or the answer would be stale.
func (d *decider) Queues(question *Question) ([]string, bool) {
	from := d.replica.state.Load()
	local, place := d.locate(from, question)
	if !from.rights.decide || from.rights.report || local == nil {
		return nil, false
	}
	groups, areGiven := from.given(local, question)
	user, access, realUser := question.User, question.Access, question.RealUser
	paths, known := local.partition.Usable(place, access, user, groups, areGiven, realUser)
	var entry *userEntry
	if !known {
		if entry = d.entry(local, user); entry == nil {
			return nil, false
		}
		// An unknown user has no groups, but keeps the queues that list the user or everyone.
		paths, _ = local.partition.Usable(place, access, user, entry.groups, true, realUser)
	}
	if answer, holds := d.check(from, &memo{entry: entry}); !holds || answer.Stale {
		return nil, false
	}
	return paths, true
}

// locate returns the policy and the place that decide a question; nil if the server must be asked.
func (d *decider) locate(from *state, question *Question) (*partitionPolicy, policy.Place) {
	local := from.find(question.Partition, d.replica.partial)
	if local == nil || !isAccepted(question, local.partition) {
		return nil, policy.Place{}
	}
	place, isHere := local.partition.Locate(question.Queue, question.Access)
	if !isHere {
		return nil, policy.Place{}
	}
	return local, place
}

// entry returns the groups of a user. If they are not here, it asks for them and returns nil.
func (d *decider) entry(local *partitionPolicy, user string) *userEntry {
	entry := d.replica.users.find(local.name, user)
	if entry == nil {
		d.wants.add(userKey{local.name, user}, d.clock())
	}
	return entry
}

// given returns the groups of a question, and whether it has them and they are used.
func (s *state) given(local *partitionPolicy, question *Question) ([]string, bool) {
	if !local.useGivenGroups || !s.rights.assertGroups {
		return nil, false
	}
	return question.Groups, question.NoGroups || len(question.Groups) > 0
}

// isAccepted returns whether a server surely accepts the names of a question.
func isAccepted(question *Question, partition *policy.Partition) bool {
	switch {
	case !policy.IsPlain(question.User), !policy.IsPlain(question.Queue),
		question.Partition != "" && !policy.IsPlain(question.Partition),
		question.RealUser != "" && !policy.IsPlain(question.RealUser):
		return false
	case len(question.Groups) == 0:
		return !question.NoGroups || partition.AcceptsUser(question.User)
	}
	return !question.NoGroups && len(question.Groups) <= maxGivenGroups &&
		!slices.ContainsFunc(question.Groups, isNotPlain) && partition.AcceptsUser(question.User)
}

func isNotPlain(name string) bool { return !policy.IsPlain(name) }
