package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// policyOf returns a complete policy of some queues that allow bob.
func policyOf(partition string, paths ...string) *queuegatev1.SyncResponse {
	message := tablesOf(paths...)
	message.Partition, message.First, message.Last = partition, true, true
	return part(message)
}

func tablesOf(paths ...string) *queuegatev1.PolicyPart {
	var queues []testQueue
	for _, path := range paths {
		queues = append(queues, testQueue{path, "bob", ""})
	}
	return compile(queues...)
}

// begun returns the first part of a policy.
func begun() *queuegatev1.SyncResponse {
	message := tablesOf("root")
	message.Partition, message.First = "default", true
	return part(message)
}

func changed(response *queuegatev1.SyncResponse, change func(*queuegatev1.PolicyPart)) *queuegatev1.SyncResponse {
	change(response.GetPolicy())
	return response
}

// A message that exceeds the bounds is an error, after which the gate has no state.
func TestMessagesBeyondTheBounds(t *testing.T) {
	type opening = *queuegatev1.SyncOpened
	type piece = *queuegatev1.PolicyPart
	long := strings.Repeat("x", maxNameBytes+1)
	for want, wrong := range map[string][]*queuegatev1.SyncResponse{
		"a lease of 5001 ms":                       {opened(func(o opening) { o.LeaseMillis = 5_001 })},
		"a lease of 4294967295 ms":                 {opened(func(o opening) { o.LeaseMillis = math.MaxUint32 })},
		"a ping interval of 4294967295":            {opened(func(o opening) { o.PingIntervalMillis = math.MaxUint32 })},
		"opened.epoch":                             {opened(func(o opening) { o.Epoch = make([]byte, maxEpochBytes+1) })},
		"opened.partitions":                        {opened(func(o opening) { o.Partitions = []string{long} })},
		"opened.partitions` has 10001":             {opened(func(o opening) { o.Partitions = slices.Repeat([]string{"p"}, maxPartitions+1) })},
		"opened.keep_groups_of":                    {opened(func(o opening) { o.KeepGroupsOf = []string{""} })},
		"that this gate does not have":             {opened(func(o opening) { o.Resumed, o.Epoch = true, []byte("other") })},
		"policy.partition":                         {policyOf(""), policyOf(long)},
		"policy.checksum":                          {changed(policyOf("p"), func(p piece) { p.Checksum = make([]byte, maxDigestBytes+1) })},
		"policy.resolver_fingerprint":              {changed(policyOf("p"), func(p piece) { p.ResolverFingerprint = make([]byte, maxDigestBytes+1) })},
		"both removed and unchanged":               {part(&queuegatev1.PolicyPart{Partition: "p", Removed: true, Unchanged: true})},
		"but has queues":                           {changed(policyOf("p", "root"), func(p piece) { p.Removed = true })},
		"more than 4096 bytes":                     {policyOf("p", "root."+strings.Repeat("a", maxPathBytes))},
		"\"p\": the policy contains a queue twice": {policyOf("p", "root.a", "root.a")},
		"was complete":                             {begun(), checkpoint(2)},
		"of \"default\" was complete":              {begun(), pong(1)},
		"forget.users":                             {forget("default", slices.Repeat([]string{"u"}, maxForgotten+1)...)},
		"checkpoint.fleet_cursor.epoch": {{Message: &queuegatev1.SyncResponse_Checkpoint{
			Checkpoint: &queuegatev1.SyncCheckpoint{FleetCursor: &queuegatev1.Cursor{Epoch: make([]byte, maxDigestBytes+1)}},
		}}},
	} {
		w := newWorld(t).live(whole("default", "alice"))
		var err error
		for _, each := range wrong {
			_, err = w.session.receive(proto.CloneOf(each), w.now)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of %q", err, want)
		}
		w.session.dropEverything()
		w.expect("alice", "root", "")
		if message := w.session.open().GetOpen(); message.Resume != nil || len(message.Held) > 0 {
			t.Error(want, message)
		}
		w.receive(opened(nil), whole("default", "alice"), checkpoint(1))
		w.renew()
		w.expect("alice", "root", policy.User)
	}
}

// A gate that names its partitions rejects all others.
func TestAPartitionThatIsNotFollowed(t *testing.T) {
	w := newWorld(t, "default").live(whole("default", "alice"))
	if _, err := w.session.receive(whole("gpu", "alice"), w.now); err == nil || !strings.Contains(err.Error(), `"gpu"`) {
		t.Error(err)
	}
}

// A policy started before another `opened` cannot be completed after it.
func TestPartsDoNotOutliveAReset(t *testing.T) {
	w := newWorld(t).live(whole("default", "alice"))
	w.receive(begun(), opened(nil))
	last := part(&queuegatev1.PolicyPart{Partition: "default", Last: true})
	if _, err := w.session.receive(last, w.now); err == nil {
		t.Error("the first part came before the reset")
	}
}

// The bounds apply to all policies together, where a new policy replaces the previous one.
func TestPoliciesAreBoundedTogether(t *testing.T) {
	paths := []string{"root"}
	for number := len(paths); number < maxQueues-1; number++ {
		paths = append(paths, fmt.Sprint("root.q", number))
	}
	large := policyOf("default", paths...)
	w := newWorld(t).live(large, policyOf("gpu", "root"), large, policyOf("gpu", "root"))
	if _, err := w.session.receive(policyOf("tpu", "root"), w.now); err == nil || !strings.Contains(err.Error(), "250000 queues") {
		t.Error(err)
	}
	w = newWorld(t).live(large, part(&queuegatev1.PolicyPart{Partition: "default", Removed: true}))
	w.receive(policyOf("tpu", "root"))
	if w.decider.replica.heldSize[0] != 1 {
		t.Error(w.decider.replica.heldSize)
	}
}

func TestPartsWithoutEndAreBounded(t *testing.T) {
	w := newWorld(t).live()
	w.receive(begun())
	text := strings.Repeat("a", 1<<20)
	var err error
	parts := 0
	for err == nil && parts <= maxPolicyBytes>>20 {
		_, err = w.session.receive(part(&queuegatev1.PolicyPart{Partition: "default", Names: []string{text}}), w.now)
		parts++
	}
	if err == nil || !strings.Contains(err.Error(), "67108864 bytes") {
		t.Error(err, parts)
	}
}

func TestPartitionsAreBounded(t *testing.T) {
	w := newWorld(t).live()
	for number := range maxPartitions - 1 {
		w.decider.replica.held[fmt.Sprint("p", number)] = &partitionPolicy{}
	}
	w.receive(policyOf("last", "root"))
	if _, err := w.session.receive(policyOf("another", "root"), w.now); err == nil || !strings.Contains(err.Error(), "10000 partitions") {
		t.Error(err)
	}
	w.receive(policyOf("p7", "root"))
}

// Checks of a user with too many groups or an unknown outcome go to the server; the stream stays open.
func TestAnswersThatAGateCannotUse(t *testing.T) {
	for name, wrong := range map[string]*queuegatev1.SyncResponse{
		"too many groups":   userGroups("eve", resolved, time.Hour, slices.Repeat([]string{"g"}, maxGroupsOfUser+1)...),
		"a long group":      userGroups("eve", resolved, time.Hour, "g", strings.Repeat("x", maxNameBytes+1)),
		"an unknown result": userGroups("eve", 77, time.Hour, "g"),
		"a negative result": userGroups("eve", -1, time.Hour, "g"),
		"no result":         userGroups("eve", 0, time.Hour, "g"),
	} {
		w := newWorld(t).live(whole("default", " g"))
		w.expect("eve", "root", "")
		w.decider.wants.take(w.now)
		w.receive(wrong)
		w.expect("eve", "root", "")
		if taken := w.decider.wants.take(w.now); len(taken) > 0 {
			t.Error(name, taken)
		}
	}
}

func TestLifetimesHaveACeiling(t *testing.T) {
	w := newWorld(t).live(whole("default", " g"))
	w.expect("eve", "root", "")
	w.decider.wants.take(w.now)
	answer := userGroups("eve", resolved, 0, "g")
	answer.GetUserGroups().LifetimeMillis = math.MaxUint64
	w.receive(answer)
	w.now += maxLifetime - 1
	w.renew()
	w.expect("eve", "root", policy.Group)
	w.now++
	w.renew()
	w.expect("eve", "root", "")
}

// The bound on groups applies to all users together.
func TestGroupsAreBoundedTogether(t *testing.T) {
	u := &users{entries: map[userKey]*userEntry{}}
	groups := slices.Repeat([]string{strings.Repeat("g", maxNameBytes)}, maxGroupsOfUser)
	for number := range 40 {
		u.set(userKey{"default", fmt.Sprint("u", number)}, true, groups, 0, time.Hour)
	}
	each := maxGroupsOfUser * (maxNameBytes + groupOverheadBytes)
	if len(u.entries) != maxGroupBytes/each || u.bytes != len(u.entries)*each {
		t.Error(len(u.entries), u.bytes)
	}
	u.forget("default", nil)
	if u.bytes != 0 {
		t.Error(u.bytes)
	}
}

func TestAPingIntervalHasAFloor(t *testing.T) {
	w := newWorld(t)
	w.session.open()
	w.receive(opened(func(o *queuegatev1.SyncOpened) { o.PingIntervalMillis = 1 }))
	if w.session.pingInterval != minPing {
		t.Error(w.session.pingInterval)
	}
}

// An endless sequence of policies does not keep a stream alive; only pongs do.
func TestAStreamWithoutPongsEnds(t *testing.T) {
	var stream liveness
	looks, ended := make(chan time.Time), make(chan struct{})
	go watch(t.Context(), looks, &stream, func() { close(ended) })
	look := func(kind *queuegatev1.SyncResponse) bool {
		stream.note(kind, true)
		select {
		case looks <- time.Time{}:
			return true
		case <-ended:
			return false
		case <-time.After(time.Minute):
			t.Fatal("it has not ended")
			return false
		}
	}
	for range 2 {
		for range maxUnansweredLooks - 2 {
			if !look(policyOf("default", "root")) {
				t.Fatal("there was a pong")
			}
		}
		look(pong(1))
	}
	for look(policyOf("default", "root")) {
	}
	if length := time.Duration(stream.silence.Load()); length != maxTransfer {
		t.Error(length)
	}
}

// Invalid tables close the stream and have no effect.
func TestHostileTables(t *testing.T) {
	deep := &queuegatev1.LevelColumns{Above: []uint32{0}, EndReasons: []queuegatev1.Reason{queuegatev1.Reason_REASON_NO_MATCH}}
	for range maxChainLevels {
		deep.Above = append(deep.Above, 1)
	}
	zeros := make([]uint32, len(deep.Above))
	deep.Depth, deep.Users, deep.Groups, deep.Services = zeros, zeros, zeros, zeros
	type piece = *queuegatev1.PolicyPart
	for name, change := range map[string]func(piece){
		"level before the first":             func(p piece) { p.Levels.Above[1] = 2 },
		"before the first":                   func(p piece) { p.Levels.Above[1] = math.MaxUint32 },
		"different lengths":                  func(p piece) { p.Levels.Depth = p.Levels.Depth[1:] },
		"of queues have different":           func(p piece) { p.ConfiguredQueues.Submit = nil },
		"of created queues have":             func(p piece) { p.CreatedQueues.Admin = nil },
		"number of listed names":             func(p piece) { p.Levels.Users[1]++ },
		"listed names does not match":        func(p piece) { p.Levels.Users[1] = math.MaxUint32 },
		"match the levels":                   func(p piece) { p.Levels.Listed = append(p.Levels.Listed, 0) },
		"a name that does not exist":         func(p piece) { p.Levels.Listed[0] = uint32(len(p.Names)) },
		"end of a chain lists names":         func(p piece) { p.Levels.Users[0], p.Levels.Users[1] = 1, 0 },
		"has an invalid reason":              func(p piece) { p.Levels.EndReasons[0] = queuegatev1.Reason_REASON_USER },
		"an invalid reason":                  func(p piece) { p.Levels.EndReasons = nil },
		"reasons the ends of chains":         func(p piece) { p.Levels.EndReasons = append(p.Levels.EndReasons, 1) },
		"empty or was sent twice":            func(p piece) { p.Names[0] = "" },
		"was sent twice":                     func(p piece) { p.Names[1] = p.Names[0] },
		"first queue is not":                 func(p piece) { p.ConfiguredQueues.Name[0] = "boot" },
		"queue is not \"root\"":              func(p piece) { p.ConfiguredQueues = nil },
		"name is empty or contains a dot":    func(p piece) { p.ConfiguredQueues.Name[1] = "a.b" },
		"empty or contains a dot":            func(p piece) { p.CreatedQueues.Name[0] = "" },
		"a parent that does not":             func(p piece) { p.ConfiguredQueues.Parent[1] = 0 },
		"parent that does not exist":         func(p piece) { p.ConfiguredQueues.Parent[1] = 2 },
		"created queue refers to a parent":   func(p piece) { p.CreatedQueues.Parent[0] = 0 },
		"a created queue refers to a parent": func(p piece) { p.CreatedQueues.Parent[0] = math.MaxUint32 },
		"contains a created queue twice":     func(p piece) { p.CreatedQueues.Name[1] = p.CreatedQueues.Name[0] },
		"a level that does not exist":        func(p piece) { p.ConfiguredQueues.Submit[1] = math.MaxUint32 },
		"level that does not exist":          func(p piece) { p.CreatedQueues.Admin[1] = uint32(len(p.Levels.Above)) + 1 },
		"ambiguous names refer":              func(p piece) { p.AmbiguousLevel = uint32(len(p.Levels.Above)) },
		"deeper than the path of any":        func(p piece) { p.Levels.Depth[1] = 9 },
		"more than 8192 levels":              func(p piece) { p.Levels, p.Names = deep, nil },
	} {
		message := newCompiler(queuegatev1.Reason_REASON_NO_MATCH).add(testQueue{"root", "bob g", ""}, testQueue{"root.a", "eve", ""}).
			create("root.a.*", "dave", "").create("root.a.b", "dave", "").part
		message.Partition, message.First, message.Last = "default", true, true
		w := newWorld(t).live(whole("default", "alice"), part(proto.CloneOf(message)))
		w.expect("bob", "root", policy.User)
		change(message)
		if _, err := w.session.receive(part(message), w.now); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v instead of %q", err, name)
		}
		w.expect("bob", "root", policy.User)
	}
}
