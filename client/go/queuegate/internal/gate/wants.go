package gate

import (
	"strings"
	"sync"
	"time"
)

const (
	// maxWanted is the maximum number of users in a message.
	maxWanted = 1_000
	// maxWaiting is the maximum number of users with pending requests for groups, as on the server.
	maxWaiting = 10_000
	// answerTime is how long to wait for a user's groups before requesting them again.
	answerTime = 10 * time.Second
)

// wants contains the users whose groups this gate needs. Each is requested only once at a time.
type wants struct {
	wake func() // must not block

	mutex   sync.Mutex
	waiting map[userKey]struct{}
	lookups map[userKey]lookup
	purgeAt time.Duration
}

// A lookup is a pending request for a user's groups.
type lookup struct {
	sentAt     time.Duration
	again      time.Duration // when the groups may be requested again
	isAnswered bool
}

func newWants(wake func()) *wants {
	return &wants{wake: wake, waiting: map[userKey]struct{}{}, lookups: map[userKey]lookup{}}
}

// add requests the groups of a user in the next message.
func (w *wants) add(key userKey, now time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if _, isWaiting := w.waiting[key]; isWaiting {
		return
	}
	if earlier, isAsked := w.lookups[key]; isAsked && now < earlier.again {
		return
	}
	if len(w.waiting)+len(w.lookups) >= maxWaiting && now >= w.purgeAt {
		w.purgeAt = now + refreshRetry
		for other, earlier := range w.lookups {
			if earlier.isAnswered && now >= earlier.again {
				delete(w.lookups, other)
			}
		}
	}
	if len(w.waiting)+len(w.lookups) >= maxWaiting {
		return
	}
	key.name = strings.Clone(key.name) // may be part of a large text
	w.waiting[key] = struct{}{}
	w.wake()
}

// take returns the users to request now, by partition, in one message each.
func (w *wants) take(now time.Duration) map[string][]string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	taken := map[string][]string{}
	for key := range w.waiting {
		if len(taken[key.partition]) == maxWanted {
			continue // in the next message
		}
		taken[key.partition] = append(taken[key.partition], key.name)
		delete(w.waiting, key)
		w.lookups[key] = lookup{sentAt: now, again: now + answerTime}
	}
	return taken
}

// answer records a response, and returns the time of its request; false if there was none. The groups are
// not requested again before the given time.
func (w *wants) answer(key userKey, again time.Duration) (time.Duration, bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	earlier, isAsked := w.lookups[key]
	if !isAsked || earlier.isAnswered {
		return 0, false
	}
	if delete(w.lookups, key); again > 0 {
		w.lookups[key] = lookup{again: again, isAnswered: true}
	}
	return earlier.sentAt, true
}

// clear drops all users, since a response arrives only on the stream of its request.
func (w *wants) clear() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	clear(w.waiting)
	clear(w.lookups)
}
