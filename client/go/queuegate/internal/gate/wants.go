package gate

import (
	"strings"
	"sync"
	"time"
)

const (
	// maxWanted is how many users one message may ask for.
	maxWanted = 1_000
	// maxWaiting is how many users may wait for their groups, as many as the server allows.
	maxWaiting = 10_000
	// answerTime is how long an answer may take before a user is asked for again.
	answerTime = 10 * time.Second
)

// wants are the users whose groups this gate needs. Each is asked for once until the answer comes.
type wants struct {
	wake func() // must not wait

	mutex   sync.Mutex
	waiting map[userKey]struct{}
	lookups map[userKey]lookup
	purgeAt time.Duration
}

// A lookup is a want that was sent.
type lookup struct {
	sentAt     time.Duration
	again      time.Duration // the user is not asked for again before
	isAnswered bool
}

func newWants(wake func()) *wants {
	return &wants{wake: wake, waiting: map[userKey]struct{}{}, lookups: map[userKey]lookup{}}
}

// add asks for the groups of a user with the next messages.
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
	key.name = strings.Clone(key.name) // it may be a part of a large text
	w.waiting[key] = struct{}{}
	w.wake()
}

// take returns the users to ask for now, by partition, with one message for each.
func (w *wants) take(now time.Duration) map[string][]string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	taken := map[string][]string{}
	for key := range w.waiting {
		if len(taken[key.partition]) == maxWanted {
			continue // with the next message
		}
		taken[key.partition] = append(taken[key.partition], key.name)
		delete(w.waiting, key)
		w.lookups[key] = lookup{sentAt: now, again: now + answerTime}
	}
	return taken
}

// answer notes an answer, and returns when this gate asked for it; false if it did not. A user whose
// answer is of little use is not asked for again before a time.
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

// clear forgets all users: an answer comes only on the stream that asked for it.
func (w *wants) clear() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	clear(w.waiting)
	clear(w.lookups)
}
