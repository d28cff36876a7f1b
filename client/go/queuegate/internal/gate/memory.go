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

// A remembered decision. Immutable. There are many, so it has only what most questions have.
type remembered struct {
	user, queue, partition string
	rare                   *rare // of the question; nil if it has none of these
	access                 policy.Access
	decision               policy.Decision
	revision               uint64
	evaluated              string
	generation             uint64     // of the state that it was made from
	entry                  *userEntry // whose groups it used; nil if it used none
}

// rare are the parts of a question that few have.
type rare struct {
	groups   []string
	noGroups bool
	realUser string
}

// remember returns what is remembered of a question about a path of a partition. Its names are copied,
// because they may be parts of large texts, or replaced by those that the gate has anyway.
func remember(question *Question, partition, path string, entry *userEntry) *remembered {
	made := &remembered{
		queue: known(question.Queue, path), partition: known(question.Partition, partition),
		access: question.Access, entry: entry,
	}
	if entry != nil {
		made.user = entry.key.name
	} else {
		made.user = strings.Clone(question.User)
	}
	if question.RealUser != "" || len(question.Groups) > 0 || question.NoGroups {
		made.rare = &rare{slices.Clone(question.Groups), question.NoGroups, strings.Clone(question.RealUser)}
		for i, group := range made.rare.groups {
			made.rare.groups[i] = strings.Clone(group)
		}
	}
	return made
}

// known returns a text, as the one that is known if they are equal.
func known(text, known string) string {
	if text == known {
		return known
	}
	return strings.Clone(text)
}

func (r *remembered) isOf(question *Question) bool {
	if r.user != question.User || r.queue != question.Queue || r.access != question.Access ||
		r.partition != question.Partition {
		return false
	}
	if r.rare == nil {
		return question.RealUser == "" && len(question.Groups) == 0 && !question.NoGroups
	}
	return r.rare.realUser == question.RealUser && r.rare.noGroups == question.NoGroups &&
		slices.Equal(r.rare.groups, question.Groups)
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
	if question.NoGroups {
		hash = hash*31 + 1
	}
	for _, group := range question.Groups {
		hash = hash*31 + maphash.String(m.seed, group)
	}
	hash += uint64(question.Access)
	return &m.slots[(hash^hash>>32)%slots]
}
