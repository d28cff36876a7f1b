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

// maxPings is the maximum number of pings in flight. All but the latest few are too old to grant a lease.
const maxPings = 32

// A session is a gate's side of the protocol, across all its streams: its lease, and the state that it
// may decide from. It takes messages and times, and returns messages. sync.proto defines the rules.
type session struct {
	// leaseUntil is when the lease expires, or never without a lease.
	leaseUntil   atomic.Int64
	pingInterval time.Duration

	replica    *replica
	wants      *wants
	name       string
	partitions []string
	instance   []byte        // identifies this gate across its streams
	stale      time.Duration // how long this gate may use its last state after its lease
	agent      string

	isOpen    bool // the server has accepted the stream
	lease     time.Duration
	epoch     []byte // nil if there is no position to resume
	announced []byte // the stream's epoch, which can be resumed after its first checkpoint
	applied   uint64 // the position of the last checkpoint
	// fleetCursor is the last checkpoint's, if any.
	fleetCursor *queuegatev1.Cursor
	lastPing    uint64
	pings       []ping // in flight, oldest first
}

type ping struct {
	id     uint64
	sentAt time.Duration
}

func newSession(r *replica, w *wants, options *Options) *session {
	s := &session{
		replica: r, wants: w, name: options.Name, partitions: options.Partitions,
		stale: options.Stale, agent: options.Agent,
		pingInterval: time.Second, instance: make([]byte, 16),
	}
	_, _ = rand.Read(s.instance) // never fails
	s.leaseUntil.Store(int64(never))
	return s
}

// open resets the per-stream state, and returns the first message of a new stream.
func (s *session) open() *queuegatev1.SyncRequest {
	s.isOpen = false
	s.pings = nil
	s.replica.parts = nil
	s.wants.clear()
	message := &queuegatev1.SyncOpen{
		Name: s.name, Partitions: s.partitions, Instance: s.instance, Rules: []uint32{policy.Rules},
		FleetCursor: s.fleetCursor, StaleMillis: ceilMillis(s.stale), Agent: s.agent,
	}
	announced := 0
	for name, policy := range s.replica.held { // the server sends all others again
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

// ceilMillis returns a duration in milliseconds, rounded up.
func ceilMillis(duration time.Duration) uint64 {
	millis := uint64(duration / time.Millisecond)
	if duration%time.Millisecond > 0 {
		millis++
	}
	return millis
}

// ping returns a ping with this gate's counts, to send at or after now.
func (s *session) ping(now time.Duration, counts *queuegatev1.GateCounts) *queuegatev1.SyncRequest {
	if len(s.pings) == maxPings {
		s.pings = s.pings[1:]
	}
	s.lastPing++
	s.pings = append(s.pings, ping{s.lastPing, now})
	sent := &queuegatev1.SyncPing{Id: s.lastPing, Counts: counts}
	return &queuegatev1.SyncRequest{Message: &queuegatev1.SyncRequest_Ping{Ping: sent}}
}

// receive processes a message from the server, and returns its acknowledgment, if required. An error
// means that the message violates the protocol or the bounds; the caller must then drop everything.
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
			// Either message would confirm the policy, although it is incomplete here.
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
		return s.release(now, false), nil
	case *queuegatev1.SyncResponse_Checkpoint:
		s.epoch, s.applied = s.announced, message.Checkpoint.GetSequence()
		s.fleetCursor = nil
		if cursor := message.Checkpoint.GetFleetCursor(); cursor != nil {
			// The cursor is sent to the next server, so drop unknown fields, which may be large.
			s.fleetCursor = &queuegatev1.Cursor{Epoch: cursor.GetEpoch(), Sequence: cursor.GetSequence()}
		}
		applied := &queuegatev1.SyncApplied{Sequence: s.applied}
		return &queuegatev1.SyncRequest{Message: &queuegatev1.SyncRequest_Applied{Applied: applied}}, nil
	}
	return nil, nil
}

// release gives up the stream's lease, and returns the message that releases it. closed means
// that this gate will not decide again.
func (s *session) release(now time.Duration, closed bool) *queuegatev1.SyncRequest {
	s.pings = nil
	s.leaseUntil.Store(min(s.leaseUntil.Load(), int64(now)))
	message := &queuegatev1.SyncRequest_Release{Release: &queuegatev1.SyncRelease{Closed: closed}}
	return &queuegatev1.SyncRequest{Message: message}
}

// reset gives up the lease, and stops using policies until the server confirms them. It is called if the
// server does not recognize this gate's state or rejects the gate. It drops all groups outside the given
// partitions.
func (s *session) reset(keepGroupsOf ...string) {
	s.epoch = nil
	if len(keepGroupsOf) == 0 {
		// If groups are kept, the cursor stays valid, because no groups are added before the next checkpoint.
		s.fleetCursor = nil
	}
	s.leaseUntil.Store(int64(never))
	s.replica.reset(keepGroupsOf)
}

// dropEverything gives up the lease and all state. The server sends the state again on the next stream.
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

// start handles the server's acceptance of a stream.
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
		// A lease from another server does not cover this server's state.
		s.reset(opened.GetKeepGroupsOf()...)
	}
	s.replica.allow(rights{decide: opened.GetLocalDecisions(), assertGroups: opened.GetAssertGroups()})
	return nil
}

// startLease extends the lease. It is measured from the time when the acknowledged ping was sent.
func (s *session) startLease(id uint64) {
	for len(s.pings) > 0 && s.pings[0].id <= id {
		first := s.pings[0]
		s.pings = s.pings[1:]
		if first.id != id || first.sentAt >= forever {
			continue // without a readable clock, there is no time to measure from
		}
		if until := int64(first.sentAt + s.lease); until > s.leaseUntil.Load() {
			s.leaseUntil.Store(until)
		}
	}
}

// setGroups stores a user's groups. Their lifetime starts at the request, since they may have been in
// transit while this process was suspended.
func (s *session) setGroups(given *queuegatev1.UserGroups, now time.Duration) {
	key := userKey{given.GetPartition(), given.GetUser()}
	longest := uint64(maxLifetime / time.Millisecond)
	lifetime := time.Duration(min(given.GetLifetimeMillis(), longest)) * time.Millisecond
	if !hasUsableGroups(given) {
		s.wants.answer(key, now+max(lifetime, minLookup))
		return // cached groups stay valid until they expire
	}
	exists := given.GetOutcome() == queuegatev1.ResolveOutcome_RESOLVE_OUTCOME_RESOLVED
	var again time.Duration
	if lifetime < minLookup {
		again = now + minLookup
	}
	if askedAt, isAsked := s.wants.answer(key, again); isAsked && askedAt < forever {
		s.replica.users.set(key, exists, given.GetGroups(), askedAt, lifetime)
	}
}
