package gate

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
)

// slots is how many decisions are remembered at most. Each question has one slot; a later question
// may take it.
const slots = 1 << 16

// A memo is a decision and its question. Immutable. There are many, so it has only what most
// questions have.
type memo struct {
	user, queue, partition string
	extras                 *extras // nil if the question has none
	access                 policy.Access
	decision               policy.Decision
	revision               uint64
	evaluated              string
	generation             uint64     // of the state that decided
	entry                  *userEntry // whose groups decided; nil if none did
}

// extras are the parts of a question that few have.
type extras struct {
	groups   []string
	noGroups bool
	realUser string
}

// newMemo returns a memo without its decision, about a path of a partition. Names are copied, because
// they may be parts of large texts, unless the gate has an equal one.
func newMemo(question *Question, partition, path string, entry *userEntry) *memo {
	user := ""
	if entry != nil {
		user = entry.key.name
	}
	fresh := &memo{
		user: own(question.User, user), queue: own(question.Queue, path),
		partition: own(question.Partition, partition), access: question.Access, entry: entry,
	}
	if question.RealUser != "" || len(question.Groups) > 0 || question.NoGroups {
		fresh.extras = &extras{slices.Clone(question.Groups), question.NoGroups, strings.Clone(question.RealUser)}
		for i, group := range fresh.extras.groups {
			fresh.extras.groups[i] = strings.Clone(group)
		}
	}
	return fresh
}

// own returns a text that is equal to another one: that of the gate if they are equal, or else a copy.
func own(text, ofGate string) string {
	if text == ofGate {
		return ofGate
	}
	return strings.Clone(text)
}

func (m *memo) isOf(question *Question) bool {
	if m.user != question.User || m.queue != question.Queue || m.access != question.Access ||
		m.partition != question.Partition {
		return false
	}
	if m.extras == nil {
		return question.RealUser == "" && len(question.Groups) == 0 && !question.NoGroups
	}
	return m.extras.realUser == question.RealUser && m.extras.noGroups == question.NoGroups &&
		slices.Equal(m.extras.groups, question.Groups)
}

// A memory has memos by their questions. It is never cleared: those of earlier states do not count.
type memory struct {
	seed  maphash.Seed
	slots []atomic.Pointer[memo]
}

func newMemory() *memory {
	return &memory{maphash.MakeSeed(), make([]atomic.Pointer[memo], slots)}
}

func (m *memory) slot(question *Question) *atomic.Pointer[memo] {
	hash := uint64(question.Access)
	if question.NoGroups {
		hash += 2
	}
	for _, text := range [...]string{question.User, question.Queue, question.Partition, question.RealUser} {
		if hash *= 31; text != "" {
			hash += maphash.String(m.seed, text)
		}
	}
	for _, group := range question.Groups {
		hash = hash*31 + maphash.String(m.seed, group)
	}
	return &m.slots[(hash^hash>>32)%slots]
}
