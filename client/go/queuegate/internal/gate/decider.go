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
	Stale     bool   // whether it was made from state that the lease does not cover any more
}

// A decider is what a gate can answer by itself, for any number of goroutines.
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

// decide answers a question; false if the server must be asked.
func (d *decider) decide(question *Question) (Answer, bool) {
	from := d.replica.state.Load()
	if !from.rights.decide {
		return Answer{}, false
	}
	slot := d.memory.slot(question)
	made := slot.Load()
	if made != nil && made.generation == from.generation && made.isOf(question) {
		if answer, holds := d.answer(from, made, question); holds {
			return answer, true
		}
	}
	if made = d.evaluate(from, question); made == nil {
		return Answer{}, false
	}
	slot.Store(made)
	return d.answer(from, made, question)
}

// answer returns an answer, if it may be used, once it has been kept for a report.
func (d *decider) answer(from *state, made *remembered, question *Question) (Answer, bool) {
	answer, holds := d.check(from, made)
	if holds && from.rights.report {
		held := from.find(question.Partition, d.replica.partial)
		if !d.outbox.add(question, held.name, answer) {
			return Answer{}, false
		}
		answer, holds = d.check(from, made) // writing may have taken long
	}
	if holds {
		d.decided.Add(1)
	}
	return answer, holds
}

// check returns an answer if, after it was made, its state was the present one and there was a lease.
func (d *decider) check(from *state, made *remembered) (Answer, bool) {
	validUntil, grace := time.Duration(d.session.leaseUntil.Load()), time.Duration(d.grace.Load())
	if made.entry != nil {
		validUntil = min(validUntil, made.entry.expires())
	}
	if d.replica.state.Load() != from {
		return Answer{}, false
	}
	// The clock comes last: this process may have been stopped until now.
	now := d.clock()
	if made.entry != nil && made.entry.isDue(now) {
		d.wants.add(made.entry.key, now)
	}
	if now >= validUntil+grace {
		return Answer{}, false
	}
	return Answer{made.decision, made.revision, made.evaluated, now >= validUntil}, true
}

// evaluate decides from a state; nil if the server must be asked.
func (d *decider) evaluate(from *state, question *Question) *remembered {
	held := from.find(question.Partition, d.replica.partial)
	if held == nil || !isAccepted(question, held.partition) {
		return nil
	}
	partition := held.partition
	place, isHere := partition.Locate(question.Queue, question.Access)
	if !isHere {
		return nil
	}
	given, isGiven := from.given(held, question)
	user, realUser := question.User, question.RealUser
	decision, evaluated, known := partition.Decide(place, user, given, isGiven, realUser)
	var entry *userEntry
	if !known {
		if entry = d.replica.users.find(held.name, user); entry == nil {
			d.wants.add(userKey{held.name, user}, d.clock())
			return nil
		}
		decision, evaluated, _ = partition.Decide(place, user, entry.groups, true, realUser)
		if !entry.exists {
			decision = policy.Unknown
		}
	}
	made := remember(question, held.name, place.Path(), entry)
	made.decision, made.revision, made.evaluated = decision, held.revision, evaluated
	made.generation = from.generation
	if subject := decision.MatchedSubject; subject == user {
		made.decision.MatchedSubject = made.user
	} else if made.rare != nil {
		made.decision.MatchedSubject = strings.Clone(subject)
	}
	return made
}

// queues returns the queues at and below that of a question that its user may use; false if the server
// must be asked: also where decisions are reported, or would be stale.
func (d *decider) queues(question *Question) ([]string, bool) {
	from := d.replica.state.Load()
	held := from.find(question.Partition, d.replica.partial)
	if !from.rights.decide || from.rights.report || held == nil || !isAccepted(question, held.partition) {
		return nil, false
	}
	partition := held.partition
	place, isHere := partition.Locate(question.Queue, question.Access)
	if !isHere {
		return nil, false
	}
	given, isGiven := from.given(held, question)
	user, access, realUser := question.User, question.Access, question.RealUser
	found, known := partition.Usable(place, access, user, given, isGiven, realUser)
	made := &remembered{}
	if !known {
		if made.entry = d.replica.users.find(held.name, user); made.entry == nil {
			d.wants.add(userKey{held.name, user}, d.clock())
			return nil, false
		}
		// An unknown user has no groups, but keeps the queues that list the user or everyone.
		found, _ = partition.Usable(place, access, user, made.entry.groups, true, realUser)
	}
	if answer, holds := d.check(from, made); !holds || answer.Stale {
		return nil, false
	}
	return found, true
}

// given returns the groups of a question, and whether it has them and they are used.
func (s *state) given(held *held, question *Question) ([]string, bool) {
	if !held.useGivenGroups || !s.rights.assertGroups {
		return nil, false
	}
	return question.Groups, question.NoGroups || len(question.Groups) > 0
}

// isAccepted returns whether a server surely accepts the names of a question.
func isAccepted(question *Question, partition *policy.Partition) bool {
	if !policy.IsPlain(question.User) || !policy.IsPlain(question.Queue) ||
		question.Partition != "" && !policy.IsPlain(question.Partition) ||
		question.RealUser != "" && !policy.IsPlain(question.RealUser) {
		return false
	}
	if len(question.Groups) == 0 && !question.NoGroups {
		return true
	}
	isConsistent := len(question.Groups) == 0 || !question.NoGroups
	return isConsistent && len(question.Groups) <= maxGivenGroups && !slices.ContainsFunc(question.Groups, isNotPlain) &&
		partition.AcceptsUser(question.User)
}

func isNotPlain(name string) bool { return !policy.IsPlain(name) }
