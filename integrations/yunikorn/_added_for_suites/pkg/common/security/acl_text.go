package security

import (
	"maps"
	"slices"
	"strings"
)

// Text returns the ACL as queues.yaml has it.
func (a ACL) Text() string {
	if a.allAllowed {
		return "*"
	}
	return names(a.users) + " " + names(a.groups)
}

func names(listed map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(listed)), ",")
}
