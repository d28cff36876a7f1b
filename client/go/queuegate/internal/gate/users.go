package gate

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxUsers = 10_000
	// refreshAfter is the fraction of the groups' lifetime after which their next use triggers a new request.
	refreshAfter = 0.8
	// refreshRetry is the minimum time between such requests.
	refreshRetry = time.Second
	// never is earlier than any time, even with any grace.
	never = time.Duration(math.MinInt64 / 2)
	// forever is later than any time; the time while the clock is unreadable.
	forever = time.Duration(math.MaxInt64 / 2)
)

// A userKey is a partition with the name of a user.
type userKey struct{ partition, name string }

// A userEntry contains the groups of a user. Immutable except for its times.
type userEntry struct {
	key       userKey
	exists    bool
	groups    []string
	expiresAt atomic.Int64 // never once dropped
	refreshAt atomic.Int64
}

func (e *userEntry) expires() time.Duration { return time.Duration(e.expiresAt.Load()) }

// isDue returns whether the caller should request the groups, and if so, stops others from doing so for
// refreshRetry.
func (e *userEntry) isDue(now time.Duration) bool {
	at := e.refreshAt.Load()
	return now < forever && int64(now) >= at && e.refreshAt.CompareAndSwap(at, int64(now+refreshRetry))
}

func (e *userEntry) live(from time.Duration, lifetime time.Duration) {
	e.expiresAt.Store(int64(from + lifetime))
	e.refreshAt.Store(int64(from + time.Duration(refreshAfter*float64(lifetime))))
}

// size returns the approximate size of the groups in bytes.
func (e *userEntry) size() int {
	sum := groupOverheadBytes * len(e.groups)
	for _, group := range e.groups {
		sum += len(group)
	}
	return sum
}

// users contains the cached groups of users. Dropping an entry invalidates the cached decisions that
// used it.
type users struct {
	mutex   sync.RWMutex
	entries map[userKey]*userEntry
	bytes   int // the approximate size of all groups
}

func (u *users) find(partition, name string) *userEntry {
	u.mutex.RLock()
	defer u.mutex.RUnlock()
	return u.entries[userKey{partition, name}]
}

// set stores the groups of a user, valid from the given time. If there are too many users, others are
// dropped.
func (u *users) set(key userKey, exists bool, groups []string, from, lifetime time.Duration) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	known := u.entries[key]
	if known != nil && known.exists == exists && slices.Equal(known.groups, groups) {
		known.live(from, lifetime)
		return
	}
	if known != nil {
		u.drop(known)
	}
	entry := &userEntry{key: key, exists: exists, groups: groups}
	room := maxGroupBytes - entry.size()
	for _, other := range u.entries { // in any order
		if len(u.entries) < maxUsers && u.bytes <= room {
			break
		}
		u.drop(other)
	}
	entry.live(from, lifetime)
	u.entries[key] = entry
	u.bytes += entry.size()
}

func (u *users) drop(entry *userEntry) {
	entry.expiresAt.Store(int64(never))
	delete(u.entries, entry.key)
	u.bytes -= entry.size()
}

// forget drops the named users of a partition, or all its users if no names are given.
func (u *users) forget(partition string, names []string) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	for _, name := range names {
		if entry := u.entries[userKey{partition, name}]; entry != nil {
			u.drop(entry)
		}
	}
	if len(names) > 0 {
		return
	}
	for key, entry := range u.entries {
		if key.partition == partition {
			u.drop(entry)
		}
	}
}

// dropAllBut drops all users outside the given partitions.
func (u *users) dropAllBut(partitions []string) {
	kept := make(map[string]bool, len(partitions))
	for _, name := range partitions {
		kept[name] = true
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	for key, entry := range u.entries {
		if !kept[key.partition] {
			u.drop(entry)
		}
	}
}
