package gate

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
)

// A Question is a check of access to a queue.
type Question struct {
	User, Queue, Partition string
	Access                 policy.Access
	Groups                 []string
	NoGroups               bool // the user has no groups; if false, empty Groups are looked up
	RealUser               string
}

// An Answer is the decision on a question.
type Answer struct {
	policy.Decision
	Revision  uint64
	Evaluated string // the nearest existing ancestor of a missing queue
	Stale     bool   // whether the lease of the evaluated state has expired
}

// A decider makes the decisions that need no call to the server. Safe for concurrent use.
type decider struct {
	replica *replica
	session *session
	wants   *wants
	memory  *memory
	clock   func() time.Duration
	// onDecision receives each decision before its caller does; may be nil.
	onDecision func(*Question, Answer)
	// grace is how long the gate may decide from old state after its lease expires.
	grace   atomic.Int64
	decided atomic.Uint64
	// decidedStale is the number of decisions from old state.
	decidedStale atomic.Uint64
}

// Decide returns the decision; false if the question must be sent to the server.
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

// answer returns the decision of a memo if it is valid, after passing it to the program.
func (d *decider) answer(from *state, memo *memo, question *Question) (Answer, bool) {
	answer, holds := d.check(from, memo)
	if holds && d.onDecision != nil {
		d.onDecision(question, answer)
		answer, holds = d.check(from, memo) // the program may have been slow
	}
	if holds {
		d.decided.Add(1)
		if answer.Stale {
			d.decidedStale.Add(1)
		}
	}
	return answer, holds
}

// check returns the decision of a memo if its state is still current and covered by a lease.
func (d *decider) check(from *state, memo *memo) (Answer, bool) {
	validUntil, grace := time.Duration(d.session.leaseUntil.Load()), time.Duration(d.grace.Load())
	if memo.entry != nil {
		validUntil = min(validUntil, memo.entry.expires())
	}
	if d.replica.state.Load() != from {
		return Answer{}, false
	}
	// The clock is read last, since this process may have been suspended.
	now := d.clock()
	if memo.entry != nil && memo.entry.isDue(now) {
		d.wants.add(memo.entry.key, now)
	}
	if now >= validUntil+grace {
		return Answer{}, false
	}
	return Answer{memo.decision, memo.revision, memo.evaluated, now >= validUntil}, true
}

// evaluate decides from a state; nil if the question must be sent to the server.
func (d *decider) evaluate(from *state, question *Question) *memo {
	local, target := d.locate(from, question)
	if local == nil {
		return nil
	}
	groups, areGiven := from.given(local, question)
	user, realUser := question.User, question.RealUser
	decision, evaluated, known := local.partition.Decide(target, user, groups, areGiven, realUser)
	var entry *userEntry
	if !known {
		if entry = d.entry(local, user); entry == nil {
			return nil
		}
		decision, evaluated, _ = local.partition.Decide(target, user, entry.groups, true, realUser)
		if !entry.exists {
			decision = policy.Unknown
		}
	}
	fresh := newMemo(question, local.name, target.Path(), entry)
	fresh.decision, fresh.revision, fresh.evaluated = decision, local.revision, evaluated
	fresh.generation = from.generation
	if subject := decision.MatchedSubject; subject == user {
		fresh.decision.MatchedSubject = fresh.user
	} else if fresh.extras != nil {
		fresh.decision.MatchedSubject = strings.Clone(subject)
	}
	return fresh
}

// Queues returns the queues at or below the question's queue that its user may use; false if the
// question must be sent to the server, as when the result would be stale.
func (d *decider) Queues(question *Question) ([]string, bool) {
	from := d.replica.state.Load()
	local, target := d.locate(from, question)
	if !from.rights.decide || local == nil {
		return nil, false
	}
	groups, areGiven := from.given(local, question)
	user, access, realUser := question.User, question.Access, question.RealUser
	paths, known := local.partition.Usable(target, access, user, groups, areGiven, realUser)
	var entry *userEntry
	if !known {
		if entry = d.entry(local, user); entry == nil {
			return nil, false
		}
		// An unknown user has no groups, but may use queues that list the user or everyone.
		paths, _ = local.partition.Usable(target, access, user, entry.groups, true, realUser)
	}
	if answer, holds := d.check(from, &memo{entry: entry}); !holds || answer.Stale {
		return nil, false
	}
	return paths, true
}

// locate returns the policy and the target of a question; nil if it must be sent to the server.
func (d *decider) locate(from *state, question *Question) (*partitionPolicy, policy.Target) {
	local := from.find(question.Partition, d.replica.partial)
	if local == nil || !isAccepted(question, local.partition) {
		return nil, policy.Target{}
	}
	target, isKnown := local.partition.Locate(question.Queue, question.Access)
	if !isKnown {
		return nil, policy.Target{}
	}
	return local, target
}

// entry returns the groups of a user. If they are missing, it requests them and returns nil.
func (d *decider) entry(local *partitionPolicy, user string) *userEntry {
	entry := d.replica.users.find(local.name, user)
	if entry == nil {
		d.wants.add(userKey{local.name, user}, d.clock())
	}
	return entry
}

// given returns the groups of a question, and whether they are set and used.
func (s *state) given(local *partitionPolicy, question *Question) ([]string, bool) {
	if !local.useGivenGroups || !s.rights.assertGroups {
		return nil, false
	}
	return question.Groups, question.NoGroups || len(question.Groups) > 0
}

// isAccepted returns whether a server certainly accepts the names of a question.
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
