package policy

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// names is a set of names. Most sets are small: a list is faster then, and takes less memory.
type names struct {
	few  []string
	many map[string]struct{}
}

const maxFew = 8

func (n *names) has(name string) bool {
	if n.many != nil {
		_, found := n.many[name]
		return found
	}
	return slices.Contains(n.few, name)
}

func (n *names) isEmpty() bool { return len(n.few) == 0 && n.many == nil }

// namesOf returns a set of names from a list, which it may change.
func namesOf(list []string) names {
	if len(list) <= maxFew {
		slices.Sort(list)
		return names{few: slices.Compact(list)}
	}
	set := make(map[string]struct{}, len(list))
	for _, name := range list {
		set[name] = struct{}{}
	}
	return names{many: set}
}

func (n names) list() []string {
	if n.many != nil {
		return slices.Collect(maps.Keys(n.many))
	}
	return n.few
}

// with returns the union of two sets, without a copy if one of them is empty.
func (n names) with(other names) names {
	switch {
	case n.isEmpty():
		return other
	case other.isEmpty():
		return n
	}
	return namesOf(slices.Concat(n.list(), other.list()))
}

// An acl is a parsed ACL. Immutable. It grants nothing if it lists nobody.
type acl struct {
	users     names
	groups    names
	proxies   names // services that are granted access for any user that they act for
	allowsAll bool
}

const wildcard = "*"

var errTooManySpaces = errors.New("an ACL has at most one space, between users and groups")

// A Grammar parses ACLs.
type Grammar func(text string) (acl, error)

// The grammars.
var (
	// YuniKorn accepts the names that YuniKorn's parser of ACLs accepts.
	YuniKorn = yunikorn(namesWith("_.@-", true), namesWith("_-", false))
	// Extended accepts the names that YuniKorn's limits accept.
	Extended = yunikorn(namesWith(":#/_.@-", true), namesWith(":_.-", false))
	// Any accepts all names without a space, comma or control character, but for *.
	Any = yunikorn(isAnyName, isAnyName)
	// Documented is YARN's grammar as its documentation has it.
	Documented Grammar = func(text string) (acl, error) { return parseYARN(text, documentedYARN), nil }
	// Hadoop is YARN's grammar as Hadoop 3.4 has it.
	Hadoop Grammar = func(text string) (acl, error) { return parseYARN(text, hadoopYARN), nil }
)

// yunikorn returns YuniKorn's grammar, users[ groups], for names that are accepted. Only a space
// separates the two lists, and there may be only one. A list that is just * allows everyone. Names
// that are not valid are dropped.
func yunikorn(isUser, isGroup func(string) bool) Grammar {
	return func(text string) (acl, error) {
		if text == "" {
			return acl{}, nil
		}
		users, groups, _ := strings.Cut(text, " ")
		if strings.Contains(groups, " ") {
			return acl{}, errTooManySpaces
		}
		// Like YuniKorn, this trims the white space of Unicode.
		if strings.TrimSpace(text) == wildcard || users == wildcard || groups == wildcard {
			return acl{allowsAll: true}, nil
		}
		return acl{
			users:  valid(users, isUser),
			groups: valid(groups, isGroup),
		}, nil
	}
}

// namesWith returns a function that accepts names with these signs.
func namesWith(signs string, dollar bool) func(string) bool {
	return func(name string) bool { return isName(name, signs, dollar) }
}

// isAnyName is for entries of a list, which have neither a space nor a comma.
func isAnyName(name string) bool {
	return name != "" && name != wildcard && isPlainUnicode(name)
}

func valid(list string, isValid func(string) bool) names {
	var found []string
	for name := range strings.SplitSeq(list, ",") {
		if isValid(name) {
			found = append(found, name)
		}
	}
	return namesOf(found)
}
