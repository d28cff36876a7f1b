package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Cluster has the settings of a YARN cluster that affect access to its queues.
type Cluster struct {
	// AdminACL is the text of yarn.admin.acl.
	AdminACL string
	// AdminUsers are the users of AdminACL, and the user of the ResourceManager.
	AdminUsers []string
	// ACLsEnabled is yarn.acl.enable.
	ACLsEnabled bool
	// ChecksSubmissionAlways is true for the fair scheduler: in Hadoop it checks submit ACLs even if
	// ACLs are disabled.
	ChecksSubmissionAlways bool
	// HasShortNames is true for the capacity scheduler: a name without dots refers to any queue of
	// that name.
	HasShortNames bool
	// Hadoop is true for Hadoop's semantics, false for the documented ones.
	Hadoop bool
}

// A Partition has the queues of a partition. Immutable; made by a [Builder]. An ACL is parsed when
// it is first needed: of a hundred thousand queues, few are ever asked about.
type Partition struct {
	isYARN         bool
	acceptsAnyUser bool // whether questions with groups may have users that YuniKorn refuses
	queues         map[string]*queue
	shortNames     map[string]string // paths by their last level; of a shared one, itself
	depth          int               // of the deepest queue
	aboveRoot      [2]*chain         // by Access
	grammar        Grammar
	paths          func() []string // sorted; made when it is first needed
}

type queue struct {
	path   string
	parent *queue                   // nil for the root
	acls   [2]*lazyACL              // by Access
	chains [2]atomic.Pointer[chain] // by Access
	// createsQueues is whether queues below it are created when somebody submits to them.
	createsQueues bool
}

// A lazyACL is an ACL that is parsed once.
type lazyACL struct {
	text   string
	parsed atomic.Pointer[acl]
}

func (l *lazyACL) parse(grammar Grammar) (acl, error) {
	if known := l.parsed.Load(); known != nil {
		return *known, nil
	}
	made, err := grammar(l.text)
	if err != nil {
		return acl{}, err
	}
	l.parsed.Store(&made)
	return made, nil
}

// AcceptsUser returns whether a question with groups may have a user of this name.
func (p *Partition) AcceptsUser(name string) bool {
	return p.isYARN || IsUserName(name) || p.acceptsAnyUser && name != wildcard
}

// IsYARN returns whether this is a partition of YARN, not of YuniKorn.
func (p *Partition) IsYARN() bool { return p.isYARN }

// A Place is where a question about a queue is decided.
type Place struct {
	path    string // the canonical path
	nearest *queue // at it, or its nearest existing ancestor; nil for a short name of several queues
}

// Path returns the canonical path of the queue.
func (p Place) Path() string { return p.path }

// IsCreated returns whether the queue does not exist, and might be created with ACLs of its own: only
// the server can decide about it.
func (p Place) IsCreated() bool {
	return p.nearest != nil && p.nearest.createsQueues && p.nearest.path != p.path
}

// Locate returns the place of a queue; false if the text is no path.
func (p *Partition) Locate(text string) (Place, bool) {
	if found := p.queues[text]; found != nil {
		return Place{found.path, found}, true
	}
	path, isPath := p.path(text)
	if !isPath {
		return Place{}, false
	}
	return Place{path, p.nearest(path)}, true
}

// path returns the canonical path of a queue that does not have this path; false if the text is none.
func (p *Partition) path(text string) (string, bool) {
	if !p.isYARN {
		return queuePath(text)
	}
	if path, isShort := p.shortNames[text]; isShort {
		return path, true
	}
	return yarnQueuePath(text)
}

// nearest returns the queue at a path, or its nearest existing ancestor, below which a missing queue
// would be created; nil for a short name that several queues share, which refers to none.
func (p *Partition) nearest(path string) *queue {
	if found := p.queues[path]; found != nil {
		return found
	}
	if _, isShared := p.shortNames[path]; isShared {
		return nil
	}
	candidate := path
	levels := 0
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		if levels++; levels == p.depth {
			candidate = path[:i]
			break
		}
	}
	for {
		if found := p.queues[candidate]; found != nil {
			return found
		}
		candidate = parentPath(candidate)
	}
}

// chain returns the compiled ACLs of a queue and of all queues above it.
func (p *Partition) chain(of *queue, access Access) (*chain, error) {
	if of == nil {
		return p.aboveRoot[access], nil
	}
	if known := of.chains[access].Load(); known != nil {
		return known, nil
	}
	made, err := p.chain(of.parent, access)
	if err != nil {
		return nil, err
	}
	admin, err := of.acls[Admin].parse(p.grammar)
	if err != nil {
		return nil, err
	}
	if access == Admin {
		made = made.extend(of.path, admin)
	} else {
		submit, err := of.acls[Submit].parse(p.grammar)
		if err != nil {
			return nil, err
		}
		made = made.extend(of.path, submit, admin)
	}
	of.chains[access].Store(made)
	return made, nil
}

// longACL is the length in bytes of an ACL that takes milliseconds to parse: no decision waits for it.
const longACL = 64 << 10

// A Builder builds a partition from its queues, which may be added in parts.
type Builder struct {
	built  Partition
	texts  map[string]*lazyACL // equal texts share one parsed ACL
	empty  *lazyACL
	queues slab[queue]
	acls   slab[lazyACL]
	names  *strings.Builder // of paths and texts
}

// A slab allocates values together: the garbage collector looks at each object of its own, and a
// policy has hundreds of thousands.
type slab[Value any] struct{ free []Value }

const (
	slabValues = 512
	slabBytes  = 64 << 10
)

func (s *slab[Value]) next() *Value {
	if len(s.free) == 0 {
		s.free = make([]Value, slabValues)
	}
	first := &s.free[0]
	s.free = s.free[1:]
	return first
}

// keep returns a text that shares its memory with others.
func (b *Builder) keep(text string) string {
	if b.names.Cap()-b.names.Len() < len(text) {
		b.names = &strings.Builder{}
		b.names.Grow(max(slabBytes, len(text)))
	}
	start := b.names.Len()
	b.names.WriteString(text)
	return b.names.String()[start:]
}

// NewBuilder starts a partition of YuniKorn without queues.
func NewBuilder(grammar Grammar) *Builder {
	return newBuilder(Partition{grammar: grammar, aboveRoot: [2]*chain{nobody, nobody}})
}

// AcceptAnyUser makes the partition accept questions with groups about users of any name.
func (b *Builder) AcceptAnyUser() *Builder {
	b.built.acceptsAnyUser = true
	return b
}

// NewClusterBuilder starts a partition of YARN without queues.
func NewClusterBuilder(settings Cluster) *Builder {
	grammar := Documented
	if settings.Hadoop {
		grammar = Hadoop
	}
	started := Partition{isYARN: true, grammar: grammar, aboveRoot: aboveRoot(settings, grammar)}
	if settings.HasShortNames {
		started.shortNames = map[string]string{}
	}
	return newBuilder(started)
}

// aboveRoot returns what the root extends. As documented, the administrators of a cluster
// administer every queue; Hadoop grants them access only to applications.
func aboveRoot(settings Cluster, grammar Grammar) [2]*chain {
	if !settings.ACLsEnabled {
		if settings.ChecksSubmissionAlways && settings.Hadoop {
			return [2]*chain{Submit: nobody, Admin: disabled}
		}
		return [2]*chain{disabled, disabled}
	}
	if settings.Hadoop {
		return [2]*chain{nobody, nobody}
	}
	admins, _ := grammar(settings.AdminACL) // every text is an ACL of YARN
	admins.users = namesOf(settings.AdminUsers)
	made := nobody.extend(cluster, admins)
	return [2]*chain{made, made}
}

func newBuilder(started Partition) *Builder {
	started.queues = map[string]*queue{}
	started.depth = 1
	empty := &lazyACL{}
	texts := map[string]*lazyACL{"": empty}
	return &Builder{built: started, texts: texts, empty: empty, names: &strings.Builder{}}
}

// Add adds a queue, after its parent. A root without ACLs is added if the first queue is not the
// root.
func (b *Builder) Add(path, submitACL, adminACL string) error {
	added := b.queues.next()
	path = b.keep(path)
	added.path = path
	if path != root {
		if len(b.built.queues) == 0 {
			b.addRoot()
		}
		added.parent = b.built.queues[parentPath(path)]
		if added.parent == nil {
			return fmt.Errorf("the queue %q must be added after its parent", path)
		}
		if b.built.shortNames != nil {
			b.addShortName(path)
		}
	}
	added.acls = [2]*lazyACL{Submit: b.shared(submitACL), Admin: b.shared(adminACL)}
	b.built.queues[path] = added
	b.built.depth = max(b.built.depth, strings.Count(path, ".")+1)
	return nil
}

// CreatesQueues says of a queue that was added that queues below it are created when somebody submits
// to them.
func (b *Builder) CreatesQueues(path string) {
	if found := b.built.queues[path]; found != nil {
		found.createsQueues = true
	}
}

// Build returns the partition. The builder must not be used afterwards.
func (b *Builder) Build() *Partition {
	if len(b.built.queues) == 0 {
		b.addRoot()
	}
	queues := b.built.queues
	b.built.paths = sync.OnceValue(func() []string { return slices.Sorted(maps.Keys(queues)) })
	for text, each := range b.texts {
		if len(text) > longACL {
			_, _ = each.parse(b.built.grammar) // a fault shows again when the ACL is needed
		}
	}
	return &b.built
}

func (b *Builder) addRoot() {
	b.built.queues[root] = &queue{path: root, acls: [2]*lazyACL{b.empty, b.empty}}
}

func (b *Builder) addShortName(path string) {
	name := path[strings.LastIndexByte(path, '.')+1:]
	if name == root {
		return
	}
	if _, isShared := b.built.shortNames[name]; isShared {
		path = name
	}
	b.built.shortNames[name] = path
}

func (b *Builder) shared(text string) *lazyACL {
	if known := b.texts[text]; known != nil {
		return known
	}
	made := b.acls.next()
	made.text = b.keep(text)
	b.texts[made.text] = made
	return made
}
