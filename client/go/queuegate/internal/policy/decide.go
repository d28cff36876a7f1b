package policy

import (
	"slices"
	"strings"
)

// AcceptsUser returns whether a request with groups may name this user.
func (p *Partition) AcceptsUser(name string) bool {
	return p.Naming.IsYARN() || isUserName(name) || p.Naming == YuniKornAnyUser && name != wildcard
}

// A Target is a requested queue, with the chain to evaluate for it.
type Target struct {
	path      string // the canonical path
	evaluated string // the nearest existing ancestor of a missing queue, if evaluated instead
	level     uint32 // the first level of the chain
}

// Path returns the canonical path of the queue.
func (t Target) Path() string { return t.path }

// recoveryLevel represents the chain of YuniKorn's recovery queue.
const recoveryLevel = UnknownLevel - 1

// Locate returns the target of a request; false if the text is not a path or only the server can decide.
func (p *Partition) Locate(text string, access Access) (Target, bool) {
	path := text
	number, exists := p.Queues[text]
	if !exists {
		var isPath bool
		if path, isPath = p.path(text); !isPath {
			return Target{}, false
		}
		number, exists = p.Queues[path]
	}
	// The path is cached with decisions, so it must not share memory with the caller's texts.
	if access == Submit && !p.Naming.IsYARN() && isRecoveryPath(path) {
		return Target{strings.Clone(path), "", recoveryLevel}, true
	}
	evaluated := ""
	switch {
	case exists:
		path = p.Paths[number]
	case path != Root && !strings.Contains(path, separator): // a short name shared by several queues
		return Target{path, "", p.Ambiguous}, true
	default:
		path = strings.Clone(path)
		nearest := path
		for !exists {
			nearest = parentPath(nearest)
			number, exists = p.Queues[nearest]
		}
		if p.Created[number] == nil {
			evaluated = p.Paths[number]
		} else if number, exists = p.created(number, path[len(nearest)+1:]); !exists {
			return Target{}, false
		}
	}
	at := Target{path, evaluated, p.Starts[access][number]}
	return at, at.level != UnknownLevel
}

// created returns the created queue below a queue; false if only the server knows it.
func (p *Partition) created(number uint32, below string) (uint32, bool) {
	for name := range strings.SplitSeq(below, separator) {
		children := p.Created[number]
		child, isNamed := children[name]
		if !isNamed {
			if child, isNamed = children[anyName]; !isNamed {
				return 0, false
			}
		}
		number = child
	}
	return number, true
}

// path returns the canonical form of a text that is not a queue's path; false if it is not a path.
func (p *Partition) path(text string) (string, bool) {
	if !p.Naming.IsYARN() {
		return queuePath(text)
	}
	if path, isShort := p.ShortNames[text]; isShort {
		return path, true
	}
	return yarnQueuePath(text)
}

// Decide decides whether a user may use a target. It also returns the nearest existing ancestor of a
// missing queue, if evaluated instead.
//
// Users and wildcards on all levels are evaluated before groups, and the service acting for the user
// only if nothing else grants access. If several levels match, the nearest wins. Nobody may submit to
// YuniKorn's recovery queue or below it.
//
// The decision is unknown if it depends on unknown groups.
func (p *Partition) Decide(
	at Target, user string, groups []string, groupsKnown bool, realUser string,
) (decision Decision, evaluated string, known bool) {
	if at.level == recoveryLevel {
		return inRecoveryQueue, "", true
	}
	decision, known = p.walk(at, user, groups, groupsKnown)
	if realUser != "" && !decision.Allowed {
		if granted, isListed := p.serviceGrant(at, realUser); isListed {
			return granted, at.evaluated, true
		}
	}
	return decision, at.evaluated, known
}

// walk evaluates a chain; false if the decision depends on unknown groups.
func (p *Partition) walk(at Target, user string, groups []string, groupsKnown bool) (Decision, bool) {
	name, isListed := p.Names[user]
	hasGroups := false
	number := at.level
	for ; p.Levels[number].Above > 0; number -= p.Levels[number].Above {
		level := &p.Levels[number]
		if isListed && p.lists(level.Users, level.Groups, name) {
			return grant(User, prefix(at.path, level.Depth), user), true
		}
		hasGroups = hasGroups || level.Groups < level.Services
	}
	end := &p.Levels[number]
	switch {
	case hasGroups && !groupsKnown:
		return Decision{}, false
	case hasGroups:
	case end.Reason == ACLsDisabled:
		return aclsDisabled, true
	case end.Reason == Wildcard || end.Reason == ClusterAdmin:
		return grant(end.Reason, prefix(at.path, end.Depth), wildcard), true
	default:
		return Decision{Reason: end.Reason}, true
	}
	for number = at.level; p.Levels[number].Above > 0; number -= p.Levels[number].Above {
		level := &p.Levels[number]
		if level.Groups == level.Services {
			continue
		}
		for _, group := range groups {
			if name, isListed := p.Names[group]; isListed && p.lists(level.Groups, level.Services, name) {
				return grant(Group, prefix(at.path, level.Depth), group), true
			}
		}
	}
	return noMatch, true
}

// serviceGrant returns the grant of the nearest level that lists a service, if any.
func (p *Partition) serviceGrant(at Target, service string) (Decision, bool) {
	name, isListed := p.Names[service]
	if !isListed {
		return Decision{}, false
	}
	for number := at.level; p.Levels[number].Above > 0; number -= p.Levels[number].Above {
		if level := &p.Levels[number]; p.lists(level.Services, level.Last, name) {
			return grant(User, prefix(at.path, level.Depth), proxyMark+service), true
		}
	}
	return Decision{}, false
}

func (p *Partition) lists(start, end, name uint32) bool {
	_, isListed := slices.BinarySearch(p.Listed[start:end], name)
	return isListed
}

// prefix returns the first levels of a path, or the path if it has fewer.
func prefix(path string, levels uint32) string {
	if levels == 0 {
		return cluster
	}
	for i := range len(path) {
		if path[i] == separator[0] {
			if levels--; levels == 0 {
				return path[:i]
			}
		}
	}
	return path
}

// Usable returns the sorted paths of the queues at or below a target that a user may use. They are
// unknown if a decision depends on unknown groups.
func (p *Partition) Usable(
	at Target, access Access, user string, groups []string, groupsKnown bool, realUser string,
) (paths []string, known bool) {
	// By level, because queues without their own ACLs share their parent's chain.
	allowed := map[uint32]bool{}
	for _, number := range p.Sorted {
		path := p.Paths[number]
		if path != at.path && !strings.HasPrefix(path, at.path+separator) {
			continue
		}
		queue, _ := p.Locate(path, access)
		isAllowed, isDecided := allowed[queue.level]
		if !isDecided {
			decision, _, known := p.Decide(queue, user, groups, groupsKnown, realUser)
			if !known {
				return nil, false
			}
			isAllowed = decision.Allowed
			allowed[queue.level] = isAllowed
		}
		if isAllowed {
			paths = append(paths, path)
		}
	}
	return paths, true
}
