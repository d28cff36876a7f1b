package policy

// A chain is one level of ACLs that list names, and the levels above it, for one kind of access.
// Immutable. Queues without ACLs share the chain of their parent.
//
// Wildcards and users are evaluated first, on all levels; groups only if none of those decides.
// The ACL documents say that the groups of a listed user are irrelevant, so such a user is served
// while the directory is down. Of several matches on different levels the nearest wins.
type chain struct {
	above  *chain // nil at the end, which lists nobody
	queue  string // the path of the queue that lists these names
	users  names
	groups names     // empty where no decision depends on them
	other  *Decision // if no user matches; nil if that depends on the groups
}

// end returns the end of a chain: the decision if none below matches.
func end(decision *Decision) *chain { return &chain{other: decision} }

var (
	nobody   = end(&noMatch)
	recovery = end(&inRecoveryQueue)
	disabled = end(&aclsDisabled)
)

// extend returns the chain of a queue below, with its ACLs in their order of evaluation.
func (c *chain) extend(queue string, acls ...acl) *chain {
	if c == disabled {
		return c
	}
	above := c
	var users, groups names
	for _, each := range acls {
		if each.allowsAll {
			// The levels above an ACL that allows everyone are never reached.
			everyone := grant(Wildcard, queue, wildcard)
			above = end(&everyone)
			break
		}
		users = users.with(each.users)
		groups = groups.with(each.groups)
	}
	if above.other != nil && above.other.Allowed {
		groups = names{}
	}
	if users.isEmpty() && groups.isEmpty() {
		return above
	}
	extended := &chain{above: above, queue: queue, users: users, groups: groups}
	if groups.isEmpty() {
		extended.other = above.other
	}
	return extended
}

// decide evaluates the ACLs; false if the groups are not known and the decision depends on them.
func (c *chain) decide(user string, groups []string, known bool) (Decision, bool) {
	for level := c; level != nil; level = level.above {
		if level.users.has(user) {
			return grant(User, level.queue, user), true
		}
	}
	if c.other != nil {
		return *c.other, true
	}
	if !known {
		return Decision{}, false
	}
	for level := c; level != nil; level = level.above {
		if level.groups.isEmpty() {
			continue
		}
		for _, group := range groups {
			if level.groups.has(group) {
				return grant(Group, level.queue, group), true
			}
		}
	}
	return noMatch, true
}
