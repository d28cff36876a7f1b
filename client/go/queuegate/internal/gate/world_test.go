package gate

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// A world is a gate without a stream, with a stopped clock.
type world struct {
	testing.TB
	now     time.Duration
	changes int
	decider *decider
	session *session
}

func newWorld(t testing.TB, partitions ...string) *world {
	w := &world{TB: t, now: time.Hour}
	replica := newReplica(len(partitions) > 0, func() { w.changes++ })
	wants := newWants(func() {})
	w.session = newSession(replica, wants, &Options{Name: "gate", Partitions: partitions})
	w.decider = &decider{
		replica: replica, session: w.session, wants: wants, memory: newMemory(),
		clock: func() time.Duration { return w.now },
	}
	return w
}

// receive processes messages, and returns the last acknowledgment.
func (w *world) receive(responses ...*queuegatev1.SyncResponse) *queuegatev1.SyncRequest {
	w.Helper()
	var last *queuegatev1.SyncRequest
	for _, response := range responses {
		answer, err := w.session.receive(proto.CloneOf(response), w.now)
		if err != nil {
			w.Fatal(err)
		}
		last = answer
	}
	return last
}

// renew grants a lease.
func (w *world) renew() {
	w.Helper()
	w.receive(pong(w.session.ping(w.now, nil).GetPing().GetId()))
}

// live starts a stream with policies.
func (w *world) live(policies ...*queuegatev1.SyncResponse) *world {
	w.Helper()
	w.session.open()
	w.receive(opened(nil))
	w.receive(policies...)
	w.receive(checkpoint(1))
	w.renew()
	return w
}

func (w *world) ask(user, queue string) (Answer, bool) {
	return w.decider.Decide(&Question{User: user, Queue: queue})
}

// expect expects a decision with a reason, or "" if only the server can decide.
func (w *world) expect(user, queue string, reason policy.Reason) {
	w.Helper()
	answer, decided := w.ask(user, queue)
	if decided != (reason != "") || decided && answer.Reason != reason {
		w.Errorf("%s in %s: %+v, %v instead of %q", user, queue, answer, decided, reason)
	}
}

// give responds to a request for a user's groups.
func (w *world) give(user string, lifetime time.Duration, groups ...string) {
	w.Helper()
	w.decider.wants.take(w.now)
	w.receive(userGroups(user, queuegatev1.ResolveOutcome_RESOLVE_OUTCOME_RESOLVED, lifetime, groups...))
}

func opened(change func(*queuegatev1.SyncOpened)) *queuegatev1.SyncResponse {
	message := &queuegatev1.SyncOpened{
		Epoch: []byte("epoch"), LeaseMillis: 5_000, PingIntervalMillis: 1_000, LocalDecisions: true,
		AssertGroups: true,
	}
	if change != nil {
		change(message)
	}
	return &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Opened{Opened: message}}
}

func pong(id uint64) *queuegatev1.SyncResponse {
	return &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Pong{Pong: &queuegatev1.SyncPong{Id: id}}}
}

func checkpoint(sequence uint64) *queuegatev1.SyncResponse {
	message := &queuegatev1.SyncCheckpoint{Sequence: sequence}
	return &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Checkpoint{Checkpoint: message}}
}

func forget(partition string, users ...string) *queuegatev1.SyncResponse {
	message := &queuegatev1.Forget{Partition: partition, Users: users}
	return &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Forget{Forget: message}}
}

func userGroups(
	user string, outcome queuegatev1.ResolveOutcome, lifetime time.Duration, groups ...string,
) *queuegatev1.SyncResponse {
	message := &queuegatev1.UserGroups{
		Partition: "default", User: user, Outcome: outcome, Groups: groups,
		LifetimeMillis: uint64(lifetime.Milliseconds()),
	}
	return &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_UserGroups{UserGroups: message}}
}

// part returns a part of a policy with this package's version of the rules.
func part(message *queuegatev1.PolicyPart) *queuegatev1.SyncResponse {
	if message.First {
		message.Rules = policy.Rules
	}
	return &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Policy{Policy: message}}
}

// whole returns a policy with a submit ACL at the root. Its checksum is the ACL.
func whole(partition, acl string) *queuegatev1.SyncResponse {
	message := compile(testQueue{"root", acl, ""})
	message.Partition, message.First, message.Last, message.UseGivenGroups = partition, true, true, true
	message.Checksum, message.Revision = []byte(acl), 1
	return part(message)
}

func unchanged(partition, checksum string, revision uint64) *queuegatev1.SyncResponse {
	return part(&queuegatev1.PolicyPart{
		Partition: partition, First: true, Last: true, Unchanged: true, UseGivenGroups: true,
		Checksum: []byte(checksum), Revision: revision,
	})
}
