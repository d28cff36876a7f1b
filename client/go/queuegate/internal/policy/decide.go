package policy

import (
	"slices"
	"strings"
)

// AcceptsUser returns whether a question with groups may have a user of this name.
func (p *Partition) AcceptsUser(name string) bool {
	return p.Naming.isYARN() || isUserName(name) || p.Naming == YuniKornAnyUser && name != wildcard
}

// A Place is where a question about access to a queue is decided.
type Place struct {
	path      string // the canonical path
	evaluated string // the nearest existing ancestor of a queue that does not exist, if that decides
	level     uint32 // at which the chain begins
}

// Path returns the canonical path of the queue.
func (p Place) Path() string { return p.path }

// recoveryLevel stands for the chain of YuniKorn's recovery queue.
const recoveryLevel = UnknownLevel - 1

// Locate returns the place of a question; false if the text is not a path or only the server can decide.
func (p *Partition) Locate(text string, access Access) (Place, bool) {
	path := text
	number, exists := p.Queues[text]
	if !exists {
		var isPath bool
		if path, isPath = p.path(text); !isPath {
			return Place{}, false
		}
		number, exists = p.Queues[path]
	}
	// The path is part of answers that are remembered: it must not be a part of the caller's texts.
	evaluated := ""
	switch {
	case exists:
		path = p.Paths[number]
	case path != Root && !strings.Contains(path, separator): // a short name that several queues share
		return Place{path, "", p.Ambiguous}, true
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
			return Place{}, false
		}
	}
	at := Place{path, evaluated, p.Starts[access][number]}
	if access == Submit && !p.Naming.isYARN() && isRecoveryPath(path) {
		at.level, at.evaluated = recoveryLevel, ""
	}
	return at, at.level != UnknownLevel
}

// created returns the queue that will be created below another one; false if only the server knows it.
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

// path returns the canonical path of a queue that does not have this path; false if the text is none.
func (p *Partition) path(text string) (string, bool) {
	if !p.Naming.isYARN() {
		return queuePath(text)
	}
	if path, isShort := p.ShortNames[text]; isShort {
		return path, true
	}
	return yarnQueuePath(text)
}

// Decide decides whether a user may use the queue at a place, and which queue decided about one that
// does not exist.
//
// Users and wildcards are evaluated first, on all levels of the chain; groups only if none of those
// decides; and where these deny, the service that acts for the user. Of several matches on different
// levels the nearest wins. Nobody may submit to the recovery queue of YuniKorn or below it.
//
// The decision is not known if the groups of the user are not and it depends on them.
func (p *Partition) Decide(
	at Place, user string, groups []string, groupsKnown bool, realUser string,
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

// walk evaluates a chain; false if the groups are not known and the decision depends on them.
func (p *Partition) walk(at Place, user string, groups []string, groupsKnown bool) (Decision, bool) {
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
	case !hasGroups && end.Reason == NoMatch:
		return noMatch, true
	case !hasGroups && end.Reason == ACLsDisabled:
		return aclsDisabled, true
	case !hasGroups:
		return grant(end.Reason, prefix(at.path, end.Depth), wildcard), true
	case !groupsKnown:
		return Decision{}, false
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

// serviceGrant returns the grant of the nearest level that lists a service, if there is one.
func (p *Partition) serviceGrant(at Place, service string) (Decision, bool) {
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

// prefix returns the first levels of a path; all of it, if it has fewer.
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

// Usable returns the paths of the queues at and below a place that a user may use, sorted. They are
// not known if the groups of the user are not and one of them depends on these.
func (p *Partition) Usable(
	at Place, access Access, user string, groups []string, groupsKnown bool, realUser string,
) (paths []string, known bool) {
	// By level: queues without ACLs of their own share the chain of their parent.
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
