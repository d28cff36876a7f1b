package gate

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/queuegate/queuegate/client/go/queuegate/internal/policy"
)

// slots is the maximum number of cached decisions. Each question maps to one slot, which another
// question may overwrite.
const slots = 1 << 16

// A memo is a cached decision with its question. Immutable. To save memory, rarely used parts of a
// question are in extras.
type memo struct {
	user, queue, partition string
	extras                 *extras // nil if unused
	access                 policy.Access
	decision               policy.Decision
	revision               uint64
	evaluated              string
	generation             uint64     // of the evaluated state
	entry                  *userEntry // the groups that the decision used, if any
}

// extras are the rarely used parts of a question.
type extras struct {
	groups   []string
	noGroups bool
	realUser string
}

// newMemo returns a memo without a decision, for a path in a partition. Names are copied, because they
// may be parts of large texts, or shared with an equal text of the gate.
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

// own returns the gate's text if it equals the given text, or else a copy.
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

// A memory is a cache of memos by question. Memos of earlier states are ignored rather than removed.
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
