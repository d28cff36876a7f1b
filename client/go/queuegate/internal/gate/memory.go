package gate

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
)

// slots is how many decisions are remembered at most. Each question has one slot; a later question
// may take it.
const slots = 1 << 16

// A remembered decision. Immutable.
type remembered struct {
	question   Question
	answer     Answer
	generation uint64     // of the state that it was made from
	entry      *userEntry // whose groups it used; nil if it used none
}

// A memory has decisions by their questions. It is never cleared: decisions from earlier states
// do not count.
type memory struct {
	seed  maphash.Seed
	slots []atomic.Pointer[remembered]
}

func newMemory() *memory {
	return &memory{maphash.MakeSeed(), make([]atomic.Pointer[remembered], slots)}
}

func (m *memory) slot(question *Question) *atomic.Pointer[remembered] {
	hash := maphash.String(m.seed, question.User)
	hash = hash*31 + maphash.String(m.seed, question.Queue)
	if question.Partition != "" {
		hash = hash*31 + maphash.String(m.seed, question.Partition)
	}
	if question.RealUser != "" {
		hash = hash*31 + maphash.String(m.seed, question.RealUser)
	}
	for _, group := range question.Groups {
		hash = hash*31 + maphash.String(m.seed, group)
	}
	hash += uint64(question.Access)
	return &m.slots[(hash^hash>>32)%slots]
}

func (q *Question) equals(other *Question) bool {
	return q.User == other.User && q.Queue == other.Queue && q.Access == other.Access &&
		q.Partition == other.Partition && q.RealUser == other.RealUser &&
		slices.Equal(q.Groups, other.Groups)
}
