package policy

import "strings"

// Decide decides whether a user may use the queue at a place.
//
// From the queue up to the root, submission is granted by the submit ACL or the admin ACL,
// administration by the admin ACL. Submission to the recovery queue of YuniKorn, and to all below
// it, is never granted. A queue that does not exist is decided by its nearest existing ancestor,
// which is returned as evaluated; it is empty if the queue exists or the decision does not depend
// on that.
//
// The decision is not known if the groups of the user are not and it depends on them. An error says
// that an ACL cannot be parsed.
func (p *Partition) Decide(
	at Place, access Access, user string, groups []string, groupsKnown bool, realUser string,
) (decision Decision, evaluated string, known bool, err error) {
	if !p.isYARN && access == Submit && isRecoveryPath(at.path) {
		return inRecoveryQueue, "", true, nil
	}
	nearest := at.nearest
	if nearest == nil { // a short name that several queues share
		if p.aboveRoot[Admin] == disabled {
			return aclsDisabled, "", true, nil
		}
		return noMatch, "", true, nil
	}
	if nearest.path != at.path {
		evaluated = nearest.path
	}
	compiled, err := p.chain(nearest, access)
	if err != nil {
		return Decision{}, "", false, err
	}
	decision, known = compiled.decide(user, groups, groupsKnown)
	if realUser != "" && !decision.Allowed {
		granted, found, err := p.byProxy(nearest, access, realUser)
		if err != nil {
			return Decision{}, "", false, err
		}
		if found {
			return granted, evaluated, true, nil
		}
	}
	return decision, evaluated, known, nil
}

// byProxy returns the grant of the nearest ACL that lists ~realUser. Chains do not include these
// names: most questions have no real user.
func (p *Partition) byProxy(from *queue, access Access, realUser string) (Decision, bool, error) {
	for level := from; level != nil; level = level.parent {
		for kind := access; kind <= Admin; kind++ { // submission is granted by both
			parsed, err := level.acls[kind].parse(p.grammar)
			if err != nil {
				return Decision{}, false, err
			}
			if parsed.proxies.has(realUser) {
				return grant(User, level.path, proxyMark+realUser), true, nil
			}
		}
	}
	return Decision{}, false, nil
}

// Usable returns the paths of the queues at and below a place that a user may use, sorted. They are
// not known if the groups of the user are not and one of them depends on these.
func (p *Partition) Usable(
	at Place, access Access, user string, groups []string, groupsKnown bool, realUser string,
) (paths []string, known bool, err error) {
	// By chain: queues without ACLs of their own share the chain of their parent.
	decided := map[*chain]bool{}
	for _, path := range p.paths() {
		if path != at.path && !strings.HasPrefix(path, at.path+".") {
			continue
		}
		found := p.queues[path]
		compiled, err := p.chain(found, access)
		if err != nil {
			return nil, false, err
		}
		if !p.isYARN && access == Submit && isRecoveryPath(path) {
			compiled = recovery
		}
		allowed, isDecided := decided[compiled]
		if !isDecided {
			decision, known := compiled.decide(user, groups, groupsKnown)
			if !known {
				return nil, false, nil
			}
			allowed = decision.Allowed
			decided[compiled] = allowed
		}
		if !allowed && realUser != "" {
			if _, allowed, err = p.byProxy(found, access, realUser); err != nil {
				return nil, false, err
			}
		}
		if allowed {
			paths = append(paths, path)
		}
	}
	return paths, true, nil
}
