package gate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const (
	resolved    = queuegatev1.ResolveOutcome_RESOLVE_OUTCOME_RESOLVED
	notFound    = queuegatev1.ResolveOutcome_RESOLVE_OUTCOME_NOT_FOUND
	unavailable = queuegatev1.ResolveOutcome_RESOLVE_OUTCOME_UNAVAILABLE
)

func TestALeaseStartsWhenThePingIsSent(t *testing.T) {
	w := newWorld(t)
	w.session.open()
	w.receive(opened(nil), whole("default", "alice"))
	w.expect("alice", "root", "") // a policy without a lease is not enough
	first := w.session.ping(w.now, nil).GetPing()
	w.now += 3 * time.Second
	second := w.session.ping(w.now, nil).GetPing()
	w.now += time.Second
	w.receive(pong(first.GetId()))
	w.expect("alice", "root", policy.User)
	w.now += time.Second - 1
	w.expect("alice", "root", policy.User)
	w.now++
	w.expect("alice", "root", "")
	w.receive(pong(second.GetId()))
	w.expect("alice", "root", policy.User)
	w.receive(pong(first.GetId()), pong(second.GetId()), pong(77)) // repeated pongs grant no lease
	w.now += 3 * time.Second
	w.expect("alice", "root", "")
}

func TestWithoutAReadableClockThereIsNoLease(t *testing.T) {
	w := newWorld(t).live(whole("default", "alice staff"))
	w.expect("eve", "root", "")
	w.give("eve", time.Minute)
	w.expect("alice", "root", policy.User)
	lease := w.session.leaseUntil.Load()
	w.now = forever
	w.renew()
	if until := w.session.leaseUntil.Load(); until != lease {
		t.Errorf("the lease lasts until %v", time.Duration(until))
	}
	w.expect("alice", "root", "")
	w.expect("sam", "root", "")
	w.give("sam", time.Hour, "staff")
	w.expect("eve", "root", "")
	w.now = 2 * time.Hour // the clock is readable again
	w.expect("alice", "root", "")
	w.renew()
	w.expect("alice", "root", policy.User)
	w.expect("sam", "root", "") // nobody knows how old the groups are
	w.expect("eve", "root", "")
	w.now += refreshRetry
	w.session.open() // the pending requests for groups end with their stream
	w.receive(opened(func(o *queuegatev1.SyncOpened) { o.Resumed = true }))
	w.expect("eve", "root", "")
	w.give("eve", time.Hour, "staff")
	w.expect("eve", "root", policy.Group)
}

func TestPingsOfAnotherStreamGrantNothing(t *testing.T) {
	w := newWorld(t).live(whole("default", "alice"))
	w.now += 4 * time.Second
	earlier := w.session.ping(w.now, nil).GetPing()
	w.session.open()
	w.receive(opened(func(o *queuegatev1.SyncOpened) { o.Resumed = true }), pong(earlier.GetId()))
	w.expect("alice", "root", policy.User) // the previous lease is still valid
	w.now += time.Second
	w.expect("alice", "root", "")
}

func TestAServerLearnsHowLongAGateUsesItsLastState(t *testing.T) {
	w := newWorld(t)
	if open := w.session.open().GetOpen(); open.StaleMillis != 0 || open.Agent != "" {
		t.Error(open)
	}
	for stale, want := range map[time.Duration]uint64{
		1:                    1,
		time.Millisecond:     1,
		time.Minute + 1:      60_001,
		365 * 24 * time.Hour: 31_536_000_000,
		1<<63 - 1:            9_223_372_036_855,
	} {
		options := &Options{Stale: stale, Agent: "queuegate-go"}
		open := newSession(newReplica(false, func() {}), newWants(func() {}), options).open().GetOpen()
		if open.StaleMillis != want || open.Agent != "queuegate-go" {
			t.Errorf("%v: %v", stale, open)
		}
	}
}

func TestOnlyAClosedGateSaysThatItIsClosed(t *testing.T) {
	w := newWorld(t).live(whole("default", "*"))
	draining := &queuegatev1.SyncResponse_Draining{Draining: &queuegatev1.SyncDraining{}}
	release := w.receive(&queuegatev1.SyncResponse{Message: draining}).GetRelease()
	if release == nil || release.Closed {
		t.Error(release)
	}
	if !w.session.release(w.now, true).GetRelease().Closed {
		t.Error("it does not say so")
	}
}

func TestDecisionsFromOldStateAreCounted(t *testing.T) {
	w := newWorld(t).live(whole("default", "*"))
	w.expect("eve", "root", policy.Wildcard)
	w.decider.grace.Store(int64(time.Minute))
	w.now += 10 * time.Second
	w.expect("eve", "root", policy.Wildcard)
	if decided, stale := w.decider.decided.Load(), w.decider.decidedStale.Load(); decided != 2 || stale != 1 {
		t.Error(decided, stale)
	}
	counts := &queuegatev1.GateCounts{Decided: 2, Stale: 1}
	if ping := w.session.ping(w.now, counts).GetPing(); !proto.Equal(ping.GetCounts(), counts) {
		t.Error(ping)
	}
}

func TestOnlyTheLatestPingsAreKept(t *testing.T) {
	w := newWorld(t).live(whole("default", "alice"))
	for range 10 * maxPings {
		w.session.ping(w.now, nil)
	}
	if len(w.session.pings) != maxPings {
		t.Error(len(w.session.pings))
	}
}

func TestAnotherServerResets(t *testing.T) {
	w := newWorld(t).live(whole("default", "*"))
	w.expect("eve", "root", policy.Wildcard)
	w.session.open()
	w.receive(opened(func(o *queuegatev1.SyncOpened) { o.Epoch = []byte("other") }))
	w.renew()
	w.expect("eve", "root", "")
	if message := w.session.open().GetOpen(); message.Resume != nil || len(message.Held) != 1 {
		t.Error(message)
	}
	w.receive(opened(nil), unchanged("default", "*", 7), checkpoint(3))
	w.expect("eve", "root", "") // there is no lease yet
	w.renew()
	answer, decided := w.ask("eve", "root")
	if !decided || answer.Revision != 7 {
		t.Error(answer, decided)
	}
	resume := w.session.open().GetOpen().GetResume()
	if string(resume.GetEpoch()) != "epoch" || resume.GetSequence() != 3 {
		t.Error(resume)
	}
}

func TestAnotherReplicaMayLetAGateKeepGroups(t *testing.T) {
	w := newWorld(t).live(whole("default", " staff"))
	fleet := &queuegatev1.Cursor{Epoch: []byte("fleet"), Sequence: 7}
	at := func(cursor *queuegatev1.Cursor) *queuegatev1.SyncResponse {
		message := &queuegatev1.SyncCheckpoint{Sequence: 2, FleetCursor: cursor}
		return &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Checkpoint{Checkpoint: message}}
	}
	keeping := func(partition string) *queuegatev1.SyncResponse {
		return opened(func(o *queuegatev1.SyncOpened) { o.KeepGroupsOf = []string{partition} })
	}
	from := func(source string) *queuegatev1.SyncResponse {
		response := unchanged("default", " staff", 2)
		response.GetPolicy().ResolverFingerprint = []byte(source)
		return response
	}
	for _, user := range []string{"sam", "eve"} {
		w.expect(user, "root", "")
		w.give(user, time.Minute, "staff")
		w.expect(user, "root", policy.Group)
	}
	w.receive(from("ldap"), at(fleet))
	message := w.session.open().GetOpen()
	if !proto.Equal(message.GetFleetCursor(), fleet) || string(message.Held[0].GetResolverFingerprint()) != "ldap" {
		t.Error(message)
	}
	w.receive(keeping("default"), forget("default", "eve"), from("ad"), at(nil))
	w.expect("sam", "root", "") // the lease is another server's
	w.renew()
	w.expect("sam", "root", policy.Group)
	w.expect("eve", "root", "")
	message = w.session.open().GetOpen()
	if message.FleetCursor != nil || string(message.Held[0].GetResolverFingerprint()) != "ad" {
		t.Error(message)
	}
	w.receive(keeping("default"), at(fleet), keeping("default"))
	if message := w.session.open().GetOpen(); !proto.Equal(message.GetFleetCursor(), fleet) {
		t.Error(message) // the stream ended before the next checkpoint
	}
	w.receive(keeping("other"), from("ad"), at(fleet))
	w.renew()
	w.expect("sam", "root", "")
	w.session.open()
	w.receive(opened(nil))
	if message := w.session.open().GetOpen(); message.FleetCursor != nil {
		t.Error(message) // it covers only the groups sent before it
	}
}

func TestUnknownFieldsOfACursorAreNotSentBack(t *testing.T) {
	w := newWorld(t).live(whole("default", " staff"))
	cursor := &queuegatev1.Cursor{Epoch: []byte("fleet"), Sequence: 7}
	unknown := protowire.AppendTag(nil, 1000, protowire.BytesType)
	cursor.ProtoReflect().SetUnknown(protowire.AppendBytes(unknown, make([]byte, 1<<20)))
	checkpoint := &queuegatev1.SyncCheckpoint{Sequence: 2, FleetCursor: cursor}
	w.receive(&queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Checkpoint{Checkpoint: checkpoint}})
	message := w.session.open().GetOpen()
	if message.GetFleetCursor().GetSequence() != 7 || proto.Size(message) > 1000 {
		t.Error(proto.Size(message))
	}
}

func TestOnlyConfirmedPositionsAreResumed(t *testing.T) {
	w := newWorld(t)
	if w.session.open().GetOpen().Resume != nil {
		t.Error("there is nothing to resume")
	}
	w.receive(opened(nil), whole("default", "alice"))
	if w.session.open().GetOpen().Resume != nil {
		t.Error("the policy is not complete")
	}
	w.receive(opened(nil), whole("default", "alice"))
	if applied := w.receive(checkpoint(9)).GetApplied(); applied.GetSequence() != 9 {
		t.Error(applied)
	}
	if sequence := w.session.open().GetOpen().GetResume().GetSequence(); sequence != 9 {
		t.Error(sequence)
	}
}

func TestServersThatDoNotFollowTheProtocol(t *testing.T) {
	for name, wrong := range map[string]*queuegatev1.SyncResponse{
		"a policy before `opened`": whole("default", "bob"),
		"a pong before `opened`":   pong(1),
		"no lease":                 opened(func(o *queuegatev1.SyncOpened) { o.LeaseMillis = 0 }),
		"no ping interval":         opened(func(o *queuegatev1.SyncOpened) { o.PingIntervalMillis = 0 }),
	} {
		w := newWorld(t).live(whole("default", "alice"))
		w.session.open()
		if _, err := w.session.receive(wrong, w.now); err == nil {
			t.Error(name)
		}
		w.expect("alice", "root", policy.User) // the lease is still valid
		w.session.dropEverything()
		w.expect("alice", "root", "")
		if message := w.session.open().GetOpen(); message.Resume != nil || len(message.Held) > 0 {
			t.Error(name, message)
		}
		w.receive(&queuegatev1.SyncResponse{}) // from a newer server
		w.receive(opened(nil), whole("default", "alice"), checkpoint(1))
		w.renew()
		w.expect("alice", "root", policy.User)
	}
}

func TestAnnouncedPoliciesAreBounded(t *testing.T) {
	w := newWorld(t)
	for i := range maxPartitions + 1 {
		w.decider.replica.held[fmt.Sprint("p", i)] = &partitionPolicy{}
	}
	if held := w.session.open().GetOpen().GetHeld(); len(held) != maxPartitions {
		t.Error(len(held))
	}
}

func TestRights(t *testing.T) {
	question := &Question{User: "eve", Queue: "root", Groups: []string{"g"}}
	ungiven := whole("default", " g")
	ungiven.GetPolicy().UseGivenGroups = false
	for name, each := range map[string]struct {
		change  func(*queuegatev1.SyncOpened)
		policy  *queuegatev1.SyncResponse
		decided bool
		allowed bool
	}{
		"all":                   {nil, whole("default", " g"), true, true},
		"no local decisions":    {func(o *queuegatev1.SyncOpened) { o.LocalDecisions = false }, whole("default", " g"), false, false},
		"no asserted groups":    {func(o *queuegatev1.SyncOpened) { o.AssertGroups = false }, whole("default", " g"), false, false},
		"they are not needed":   {func(o *queuegatev1.SyncOpened) { o.AssertGroups = false }, whole("default", "eve g"), true, true},
		"the partition ignores": {nil, ungiven, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).live(each.policy)
			w.decider.Decide(question)
			// The rights of a later stream apply to cached decisions as well.
			w.session.open()
			w.receive(opened(func(o *queuegatev1.SyncOpened) {
				o.Resumed = true
				if each.change != nil {
					each.change(o)
				}
			}))
			answer, decided := w.decider.Decide(question)
			if decided != each.decided || answer.Allowed != each.allowed {
				t.Error(answer, decided)
			}
		})
	}
}

func TestGroups(t *testing.T) {
	w := newWorld(t).live(whole("default", "alice g"))
	w.receive(userGroups("eve", resolved, time.Minute, "g"))
	w.expect("eve", "root", "") // they were not requested
	w.give("eve", time.Minute, "x", "g")
	w.expect("eve", "root", policy.Group)
	w.expect("bob", "root", "")
	w.give("bob", time.Minute)
	w.expect("bob", "root", policy.NoMatch)
	w.expect("nil", "root", "")
	w.decider.wants.take(w.now)
	w.receive(userGroups("nil", notFound, time.Minute))
	w.expect("nil", "root", policy.UnknownUser)
	w.expect("alice", "root", policy.User)

	w.receive(forget("default", "eve", "carol"))
	w.expect("eve", "root", "")
	w.expect("bob", "root", policy.NoMatch)
	w.receive(forget("gpu"))
	w.expect("bob", "root", policy.NoMatch)
	w.receive(forget("default"))
	w.expect("bob", "root", "")
	w.expect("nil", "root", "")
	w.expect("alice", "root", policy.User)
}

func TestGroupsThatChange(t *testing.T) {
	w := newWorld(t).live(whole("default", " g"))
	w.expect("eve", "root", "")
	w.give("eve", time.Minute, "g")
	w.expect("eve", "root", policy.Group)
	w.decider.wants.add(userKey{"default", "eve"}, w.now)
	w.give("eve", time.Minute, "h")
	w.expect("eve", "root", policy.NoMatch)
}

func TestGroupsLiveFromWhenTheyWereAskedFor(t *testing.T) {
	w := newWorld(t).live(whole("default", " g"))
	w.expect("eve", "root", "")
	w.decider.wants.take(w.now)
	w.now += 3 * time.Second // the response is in transit
	w.renew()
	w.receive(userGroups("eve", resolved, 4*time.Second, "g"))
	w.expect("eve", "root", policy.Group)
	w.now += time.Second
	w.expect("eve", "root", "")
	taken := w.decider.wants.take(w.now)
	if !slices.Equal(taken["default"], []string{"eve"}) {
		t.Error("groups that have expired are asked for again:", taken)
	}
}

func TestGroupsAreRefreshed(t *testing.T) {
	w := newWorld(t).live(whole("default", " g"))
	w.expect("eve", "root", "")
	w.give("eve", 4*time.Second, "g")
	w.now += 3 * time.Second
	w.expect("eve", "root", policy.Group)
	if taken := w.decider.wants.take(w.now); len(taken) > 0 {
		t.Error("too early:", taken)
	}
	w.now += 300 * time.Millisecond
	for range 3 {
		w.expect("eve", "root", policy.Group)
	}
	if taken := w.decider.wants.take(w.now); len(taken["default"]) != 1 {
		t.Error(taken)
	}
	w.receive(userGroups("eve", resolved, 4*time.Second, "g"))
	w.renew()
	w.now += 3 * time.Second
	w.expect("eve", "root", policy.Group)
}

func TestGroupsThatCannotBeHad(t *testing.T) {
	w := newWorld(t).live(whole("default", " g"))
	ask := func() int {
		w.expect("eve", "root", "")
		return len(w.decider.wants.take(w.now))
	}
	if ask() != 1 || ask() != 0 {
		t.Error("a user is asked for once")
	}
	w.receive(userGroups("eve", unavailable, 2*time.Second))
	w.now += 2*time.Second - 1
	if ask() != 0 {
		t.Error("too early")
	}
	w.now++
	if ask() != 1 {
		t.Error("the user was not asked for again")
	}
	w.now += answerTime
	w.renew()
	if ask() != 1 {
		t.Error("there was no answer")
	}
}

func TestGroupsThatLiveTooShortAreNotAskedForAgainAtOnce(t *testing.T) {
	w := newWorld(t).live(whole("default", " g"))
	w.expect("eve", "root", "")
	w.give("eve", 0, "g")
	w.expect("eve", "root", "")
	if taken := w.decider.wants.take(w.now); len(taken) > 0 {
		t.Error(taken)
	}
	w.now += minLookup
	w.expect("eve", "root", "")
	if taken := w.decider.wants.take(w.now); len(taken) != 1 {
		t.Error(taken)
	}
}

func TestWantsAreBounded(t *testing.T) {
	w := newWorld(t).live(whole("default", " g"))
	for i := range maxWaiting + 10 {
		w.ask(fmt.Sprint("user", i), "root")
	}
	total := 0
	for {
		taken := w.decider.wants.take(w.now)["default"]
		if len(taken) == 0 {
			break
		}
		if len(taken) > maxWanted {
			t.Error(len(taken))
		}
		total += len(taken)
	}
	if total != maxWaiting {
		t.Error(total)
	}
	w.now += answerTime // these may still be pending on the server
	if w.ask("eve", "root"); len(w.decider.wants.take(w.now)) > 0 {
		t.Error("more than the server lets wait")
	}
	for i := range 2_000 {
		w.receive(userGroups(fmt.Sprint("user", i), unavailable, 0))
	}
	w.now += refreshRetry
	w.renew()
	if w.ask("eve", "root"); len(w.decider.wants.take(w.now)) == 0 {
		t.Error("there is room again")
	}
}

func TestUsersAreBounded(t *testing.T) {
	w := newWorld(t).live(whole("default", " g"))
	for i := range maxUsers + 10 {
		user := fmt.Sprint("user", i)
		w.ask(user, "root")
		w.give(user, time.Hour, "g")
		w.expect(user, "root", policy.Group)
	}
	if known := len(w.decider.replica.users.entries); known != maxUsers {
		t.Error(known)
	}
	gone := 0
	for i := range maxUsers + 10 {
		if _, decided := w.ask(fmt.Sprint("user", i), "root"); !decided {
			gone++
		}
	}
	if gone != 10 {
		t.Errorf("%d instead of 10 users that were dropped decide nothing", gone)
	}
}

func TestStale(t *testing.T) {
	w := newWorld(t).live(whole("default", "alice g"))
	w.expect("eve", "root", "")
	w.give("eve", 2*time.Second, "g")
	stale := func(user string) string {
		answer, decided := w.ask(user, "root")
		return fmt.Sprint(decided, answer.Stale)
	}
	w.decider.grace.Store(int64(10 * time.Second)) // the stream has ended
	w.now += 2 * time.Second
	if stale("alice") != "true false" || stale("eve") != "true true" {
		t.Error(stale("alice"), stale("eve"))
	}
	w.now += 3 * time.Second
	if stale("alice") != "true true" || stale("eve") != "true true" {
		t.Error(stale("alice"), stale("eve"))
	}
	w.now += 7 * time.Second
	if stale("alice") != "true true" || stale("eve") != "false false" {
		t.Error(stale("alice"), stale("eve"))
	}
	w.now += 3 * time.Second
	if stale("alice") != "false false" {
		t.Error(stale("alice"))
	}
	w.session.reset()
	w.receive(opened(nil), whole("default", "alice"))
	w.now = 0
	if stale("alice") != "false false" { // there has never been a lease
		t.Error(stale("alice"))
	}
}

func TestParts(t *testing.T) {
	w := newWorld(t).live(whole("default", "alice"))
	whole := tablesOf("root.a", "root.a.b", "root.c")
	whole.Partition = "default"
	parts := cut(whole, 2)
	first, last := part(parts[0]), part(parts[1])
	middle := part(&queuegatev1.PolicyPart{Partition: "default"})
	w.receive(first, middle)
	w.expect("bob", "root.a", policy.NoMatch) // from the previous policy
	w.receive(first, middle, last)
	w.expect("bob", "root.c", policy.User)
	w.expect("alice", "root.c", policy.NoMatch)
	if w.changes != 2 {
		t.Error(w.changes)
	}
	w.receive(part(&queuegatev1.PolicyPart{Partition: "default", First: true, Last: true, Removed: true}))
	w.expect("bob", "root.c", "")
	w.receive(first)
	w.session.open()
	if _, err := w.session.receive(middle, w.now); err == nil {
		t.Error("the first part is of another stream")
	}
	for name, wrong := range map[string][]*queuegatev1.SyncResponse{
		"no first part":         {middle},
		"of another partition":  {first, part(&queuegatev1.PolicyPart{Partition: "gpu", Last: true})},
		"unchanged, not held":   {unchanged("default", "x", 1)},
		"unchanged, other held": {policyOf("default", "root"), unchanged("default", "x", 1)},
	} {
		w.session.open()
		var err error
		for _, each := range wrong {
			_, err = w.session.receive(each, w.now)
		}
		if err == nil {
			t.Error(name)
		}
	}
}

func TestPartitions(t *testing.T) {
	policies := []*queuegatev1.SyncResponse{whole("default", "alice"), whole("gpu", "bob"), whole("[rm]gpu", "eve")}
	for _, each := range []struct {
		partition, user string
		all, some       bool // whether the gate decides if it follows all partitions, or only some
	}{
		{"", "alice", true, true},
		{"default", "alice", true, true},
		{"[x]default", "alice", true, false}, // the server may have a partition with this name
		{"gpu", "bob", true, true},
		{"[x]gpu", "bob", true, false},
		{"[rm]gpu", "eve", true, true},
		{"tpu", "", false, false},
		{"[x\x00]gpu", "", false, false},
	} {
		question := &Question{User: each.user, Queue: "root", Partition: each.partition}
		if each.user == "" {
			question.User = "alice"
		}
		if answer, decided := newWorld(t).live(policies...).decider.Decide(question); decided != each.all || answer.Allowed != each.all {
			t.Error(each, answer, decided)
		}
		if answer, decided := newWorld(t, "default", "gpu", "[rm]gpu").live(policies...).decider.Decide(question); decided != each.some || answer.Allowed != each.some {
			t.Error(each, answer, decided)
		}
	}
}

func TestQuestionsThatAServerMayReject(t *testing.T) {
	w := newWorld(t).live(whole("default", "*"))
	long := make([]string, maxGivenGroups+1)
	for i := range long {
		long[i] = "g"
	}
	for name, question := range map[string]*Question{
		"no user":        {Queue: "root"},
		"no queue":       {User: "alice"},
		"no path":        {User: "alice", Queue: "default"},
		"a tab":          {User: "alice\t", Queue: "root"},
		"a separator":    {User: "alice\u2028", Queue: "root"},
		"not UTF-8":      {User: "alice\xff", Queue: "root"},
		"an empty group": {User: "alice", Queue: "root", Groups: []string{""}},
		"a user of YARN": {User: "1alice", Queue: "root", Groups: []string{"g"}},
		"many groups":    {User: "alice", Queue: "root", Groups: long},
		"a bad service":  {User: "alice", Queue: "root", RealUser: "\n"},
	} {
		if answer, decided := w.decider.Decide(question); decided {
			t.Error(name, answer)
		}
	}
	w.expect("1alice", "root", policy.Wildcard)
}

func TestAChangeWhileADecisionIsMade(t *testing.T) {
	for name, change := range map[string]*queuegatev1.SyncResponse{
		"another policy": whole("default", "bob"),
		"forget":         forget("default", "eve"),
		"other rights":   opened(func(o *queuegatev1.SyncOpened) { o.Resumed, o.AssertGroups = true, false }),
		"another server": opened(nil),
	} {
		w := newWorld(t).live(whole("default", " g"))
		w.expect("eve", "root", "")
		w.give("eve", time.Minute, "g")
		from := w.decider.replica.state.Load()
		memo := w.decider.evaluate(from, &Question{User: "eve", Queue: "root"})
		if _, holds := w.decider.check(from, memo); !holds {
			t.Error(memo)
		}
		w.receive(change)
		if answer, holds := w.decider.check(from, memo); holds {
			t.Error(name, answer)
		}
	}
}

func TestRememberedDecisions(t *testing.T) {
	w := newWorld(t).live(whole("default", "alice g"))
	groups := []string{"g"}
	question := &Question{User: "eve", Queue: "root", Groups: groups}
	for range 2 {
		if answer, _ := w.decider.Decide(question); answer.Reason != policy.Group {
			t.Error(answer)
		}
	}
	groups[0] = "h" // the caller's slice
	if answer, _ := w.decider.Decide(question); answer.Reason != policy.NoMatch {
		t.Error(answer)
	}
	w.receive(whole("default", "eve"))
	if answer, _ := w.decider.Decide(question); answer.Reason != policy.User {
		t.Error(answer)
	}
	if w.decider.decided.Load() != 4 {
		t.Error(w.decider.decided.Load())
	}
}

func TestQueues(t *testing.T) {
	message := compile(
		testQueue{"root.b", "alice", ""}, testQueue{"root.a", "*", ""}, testQueue{"root.b.g", " g", ""},
		testQueue{"root.@recovery@", "*", ""}, testQueue{"root.bb", "", "alice"},
	)
	message.Partition, message.First, message.Last, message.UseGivenGroups = "default", true, true, true
	w := newWorld(t).live(part(message))
	list := func(user, queue string, groups ...string) string {
		got, decided := w.decider.Queues(&Question{User: user, Queue: queue, Groups: groups})
		return fmt.Sprint(got, decided)
	}
	expect := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
	expect(list("alice", "root"), "[root.a root.b root.b.g root.bb] true")
	expect(list("alice", "root.b"), "[root.b root.b.g] true")
	expect(list("alice", "root.new"), "[] true")
	expect(list("alice", "nowhere"), "[] false")
	expect(list("", "root"), "[] false")
	expect(list("eve", "root", "g"), "[root.a root.b.g] true")
	expect(list("eve", "root.a"), "[root.a] true")
	expect(list("eve", "root"), "[] false")
	w.give("eve", 2*time.Second, "g")
	expect(list("eve", "root"), "[root.a root.b.g] true")
	w.now += 2 * time.Second
	w.decider.grace.Store(int64(time.Hour))
	expect(list("eve", "root"), "[] false") // a list cannot be marked as stale
	expect(list("alice", "root.b"), "[root.b root.b.g] true")
	w.session.open()
	w.receive(opened(func(o *queuegatev1.SyncOpened) { o.Resumed, o.LocalDecisions = true, false }))
	expect(list("alice", "root.b"), "[] false")
}

func TestUnknownRulesAreNotDecidedBy(t *testing.T) {
	w := newWorld(t)
	if rules := w.session.open().GetOpen().GetRules(); !slices.Equal(rules, []uint32{policy.Rules}) {
		t.Error(rules)
	}
	later := whole("default", "alice")
	later.GetPolicy().Rules = policy.Rules + 1
	w.live(later, whole("gpu", "alice"))
	w.expect("alice", "root", "")
	if answer, decided := w.decider.Decide(&Question{User: "alice", Queue: "root", Partition: "gpu"}); !decided {
		t.Error(answer)
	}
	w.receive(whole("default", "alice"))
	w.expect("alice", "root", policy.User)
}

func TestAServerThatDrainsGetsItsLeaseBack(t *testing.T) {
	w := newWorld(t).live(whole("default", "alice"))
	ping := w.session.ping(w.now, nil).GetPing()
	w.decider.grace.Store(int64(time.Minute))
	answer := w.receive(&queuegatev1.SyncResponse{
		Message: &queuegatev1.SyncResponse_Draining{Draining: &queuegatev1.SyncDraining{}},
	})
	if answer.GetRelease() == nil {
		t.Error(answer)
	}
	if answer, decided := w.ask("alice", "root"); !decided || !answer.Stale {
		t.Error(answer, decided)
	}
	w.decider.grace.Store(0)
	w.receive(pong(ping.GetId()))
	w.expect("alice", "root", "")
	instance := w.session.open().GetOpen().GetInstance()
	if len(instance) != 16 || !slices.Equal(instance, w.session.open().GetOpen().GetInstance()) {
		t.Error(instance)
	}
}

// A decision is void if its policy is replaced or its lease expires before the program has taken it.
func TestAProgramThatTakesTime(t *testing.T) {
	for name, change := range map[string]func(*world){
		"another policy": func(w *world) { w.receive(whole("default", "bob")) },
		"no lease":       func(w *world) { w.now += 5 * time.Second },
		"none":           func(*world) {},
	} {
		w := newWorld(t).live(whole("default", "alice"))
		told := 0
		w.decider.onDecision = func(_ *Question, answer Answer) {
			if told++; !answer.Allowed || answer.Stale {
				t.Error(answer)
			}
			change(w)
		}
		if _, decided := w.ask("alice", "root"); decided != (name == "none") || told != 1 {
			t.Error(name, decided, told)
		}
	}
	w := newWorld(t).live(whole("default", "alice"))
	w.decider.grace.Store(int64(time.Hour))
	w.now += 5 * time.Second
	w.decider.onDecision = func(_ *Question, answer Answer) {
		if !answer.Stale {
			t.Error(answer)
		}
	}
	w.ask("alice", "root")
}
