package gate

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// maxPings is how many pings may be unanswered; older ones cannot grant a lease.
const maxPings = 32

// A session is the protocol of a gate, over all its streams: which state it may decide from, and
// until when. Messages and times come in, messages come out. The rules are in sync.proto.
type session struct {
	// leaseUntil is when this gate must stop deciding; never while there is no lease. It may be read
	// at any time.
	leaseUntil   atomic.Int64
	pingInterval time.Duration

	replica    *replica
	wants      *wants
	name       string
	partitions []string
	instance   []byte // identifies this gate on all its streams
	canReport  bool

	isOpen    bool // the server has answered the first message of the stream
	lease     time.Duration
	epoch     []byte // nil if there is nothing to resume
	announced []byte // the epoch of this stream, which can be resumed after its first checkpoint
	applied   uint64 // the position of the last checkpoint
	// fleetCursor is from the last checkpoint; nil if that had none.
	fleetCursor *queuegatev1.Cursor
	lastPing    uint64
	pings       []ping // without an answer, oldest first
}

type ping struct {
	id     uint64
	sentAt time.Duration
}

func newSession(r *replica, w *wants, name string, partitions []string, canReport bool) *session {
	s := &session{
		replica: r, wants: w, name: name, partitions: partitions, canReport: canReport,
		pingInterval: time.Second, instance: make([]byte, 16),
	}
	_, _ = rand.Read(s.instance) // never fails
	s.leaseUntil.Store(int64(never))
	return s
}

// open returns the first message of a new stream. The previous stream has ended.
func (s *session) open() *queuegatev1.SyncRequest {
	s.isOpen = false
	s.pings = nil
	s.replica.parts = nil
	s.wants.clear()
	message := &queuegatev1.SyncOpen{
		Name: s.name, Partitions: s.partitions, Instance: s.instance, Rules: []uint32{policy.Rules},
		FleetCursor: s.fleetCursor,
	}
	announced := 0
	for name, policy := range s.replica.held { // others are sent again
		if announced += len(name); announced > maxAnnouncedBytes || len(message.Held) == maxPartitions {
			break
		}
		message.Held = append(message.Held, &queuegatev1.HeldPolicy{
			Partition: name, Checksum: policy.checksum, ResolverFingerprint: policy.resolverFingerprint,
		})
	}
	if s.epoch != nil {
		message.Resume = &queuegatev1.Cursor{Epoch: s.epoch, Sequence: s.applied}
	}
	return &queuegatev1.SyncRequest{Message: &queuegatev1.SyncRequest_Open{Open: message}}
}

// ping returns a ping, to be sent at this time or later.
func (s *session) ping(now time.Duration) *queuegatev1.SyncRequest {
	if len(s.pings) == maxPings {
		s.pings = s.pings[1:]
	}
	s.lastPing++
	s.pings = append(s.pings, ping{s.lastPing, now})
	sent := &queuegatev1.SyncPing{Id: s.lastPing}
	return &queuegatev1.SyncRequest{Message: &queuegatev1.SyncRequest_Ping{Ping: sent}}
}

// receive takes a message of the server and returns the answer to it, if it needs one. An error says
// that the message breaks the protocol or is beyond the bounds; the caller must drop everything then.
func (s *session) receive(
	response *queuegatev1.SyncResponse, now time.Duration,
) (*queuegatev1.SyncRequest, error) {
	if response.GetMessage() != nil && response.GetOpened() == nil && !s.isOpen {
		return nil, errors.New("the first message must be `opened`")
	}
	if err := check(response); err != nil {
		return nil, err
	}
	if name := s.replica.parts.GetPartition(); name != "" {
		switch response.GetMessage().(type) {
		case *queuegatev1.SyncResponse_Pong, *queuegatev1.SyncResponse_Checkpoint:
			// It would cover a state of which this gate has a part.
			return nil, fmt.Errorf("a pong or checkpoint came before the policy of %q was complete", name)
		}
	}
	switch message := response.GetMessage().(type) {
	case *queuegatev1.SyncResponse_Pong:
		s.startLease(message.Pong.GetId())
	case *queuegatev1.SyncResponse_Opened:
		return nil, s.start(message.Opened)
	case *queuegatev1.SyncResponse_Policy:
		return nil, s.addPart(message.Policy)
	case *queuegatev1.SyncResponse_Forget:
		s.replica.users.forget(message.Forget.GetPartition(), message.Forget.GetUsers())
	case *queuegatev1.SyncResponse_UserGroups:
		s.setGroups(message.UserGroups, now)
	case *queuegatev1.SyncResponse_Draining:
		return s.release(now), nil
	case *queuegatev1.SyncResponse_Checkpoint:
		s.epoch, s.applied = s.announced, message.Checkpoint.GetSequence()
		s.fleetCursor = nil
		if cursor := message.Checkpoint.GetFleetCursor(); cursor != nil {
			// Without unknown fields, which may be large: the next server is sent this one.
			s.fleetCursor = &queuegatev1.Cursor{Epoch: cursor.GetEpoch(), Sequence: cursor.GetSequence()}
		}
		applied := &queuegatev1.SyncApplied{Sequence: s.applied}
		return &queuegatev1.SyncRequest{Message: &queuegatev1.SyncRequest_Applied{Applied: applied}}, nil
	}
	return nil, nil
}

// release stops deciding under the leases of this stream; it returns the message that says so.
func (s *session) release(now time.Duration) *queuegatev1.SyncRequest {
	s.pings = nil
	s.leaseUntil.Store(min(s.leaseUntil.Load(), int64(now)))
	message := &queuegatev1.SyncRequest_Release{Release: &queuegatev1.SyncRelease{}}
	return &queuegatev1.SyncRequest{Message: message}
}

// reset stops deciding from this state, because the server does not know it or does not admit this
// gate. It drops all groups but those of these partitions.
func (s *session) reset(keepGroupsOf ...string) {
	s.epoch = nil
	if len(keepGroupsOf) == 0 {
		// Otherwise it stays valid: until the next checkpoint, groups are only dropped.
		s.fleetCursor = nil
	}
	s.leaseUntil.Store(int64(never))
	s.replica.reset(keepGroupsOf)
}

// dropEverything stops deciding, and has the next stream send everything.
func (s *session) dropEverything() {
	s.reset()
	s.replica.parts = nil
	clear(s.replica.held)
	s.replica.heldSize = size{}
}

func (s *session) addPart(part *queuegatev1.PolicyPart) error {
	name := part.GetPartition()
	if len(s.partitions) > 0 && !slices.Contains(s.partitions, name) {
		return fmt.Errorf("this gate does not follow the partition %q", name)
	}
	return s.replica.add(part)
}

// start takes the answer to the first message of a stream.
func (s *session) start(opened *queuegatev1.SyncOpened) error {
	if opened.GetResumed() && (s.epoch == nil || !bytes.Equal(opened.GetEpoch(), s.epoch)) {
		return errors.New("`opened` resumes from a position that this gate does not have")
	}
	s.isOpen = true
	s.replica.parts = nil
	s.announced = opened.GetEpoch()
	s.lease = millis(opened.GetLeaseMillis())
	s.pingInterval = max(millis(opened.GetPingIntervalMillis()), minPing)
	if !opened.GetResumed() {
		// The lease of another server does not cover the state of this one.
		s.reset(opened.GetKeepGroupsOf()...)
	}
	report := opened.GetReportDecisions()
	s.replica.allow(rights{
		decide:       opened.GetLocalDecisions() && (s.canReport || !report),
		assertGroups: opened.GetAssertGroups(),
		report:       report,
	})
	return nil
}

// startLease extends the lease to that of a ping: it runs from when the ping was sent.
func (s *session) startLease(id uint64) {
	for len(s.pings) > 0 && s.pings[0].id <= id {
		first := s.pings[0]
		s.pings = s.pings[1:]
		if until := int64(first.sentAt + s.lease); first.id == id && until > s.leaseUntil.Load() {
			s.leaseUntil.Store(until)
		}
	}
}

// setGroups stores the groups of a user. They were looked up after this gate had asked for them, so
// their lifetime starts then, however long they were under way.
func (s *session) setGroups(given *queuegatev1.UserGroups, now time.Duration) {
	key := userKey{given.GetPartition(), given.GetUser()}
	longest := uint64(maxLifetime / time.Millisecond)
	lifetime := time.Duration(min(given.GetLifetimeMillis(), longest)) * time.Millisecond
	if !hasUsableGroups(given) {
		s.wants.answer(key, now+max(lifetime, minLookup))
		return // known groups hold until they expire
	}
	exists := given.GetOutcome() == queuegatev1.ResolveOutcome_RESOLVE_OUTCOME_RESOLVED
	var again time.Duration
	if lifetime < minLookup {
		again = now + minLookup
	}
	if askedAt, isAsked := s.wants.answer(key, again); isAsked {
		s.replica.users.set(key, exists, given.GetGroups(), askedAt, lifetime)
	}
}
