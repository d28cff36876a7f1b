package policy

import (
	"strings"
	"unicode"
)

// proxyMark precedes the name of a service whose users Hadoop lets in.
const proxyMark = "~"

// parseYARN parses users[ groups], or *. Every text is an ACL, even if it grants nothing.
func parseYARN(text string, parse func(string) acl) acl {
	switch text {
	case wildcard:
		return acl{allowsAll: true}
	case "":
		return acl{}
	}
	return parse(text)
}

// documentedYARN ignores all after a second space, does not trim, and drops ~name and entries with
// white space, which the documentation forbids in a list.
func documentedYARN(text string) acl {
	users, rest, _ := strings.Cut(text, " ")
	groups, _, _ := strings.Cut(rest, " ")
	return acl{users: usable(users), groups: usable(groups)}
}

func usable(list string) names {
	var found []string
	for name := range strings.SplitSeq(list, ",") {
		if name != "" && !strings.HasPrefix(name, proxyMark) && !strings.ContainsFunc(name, isSpace) {
			found = append(found, name)
		}
	}
	return namesOf(found)
}

// isSpace returns whether Python's \s matches a character: the separators U+001C to U+001F, too.
func isSpace(sign rune) bool {
	return unicode.IsSpace(sign) || 0x1c <= sign && sign <= 0x1f
}

// hadoopYARN splits at the first space only, trims lists and entries as Java does, and takes ~name
// for every user that the service acts for.
func hadoopYARN(text string) acl {
	userList, groupList, _ := strings.Cut(text, " ")
	if trim(userList) == wildcard || trim(groupList) == wildcard {
		return acl{allowsAll: true}
	}
	var users, proxies []string
	for _, name := range entries(userList) {
		service, isProxy := strings.CutPrefix(name, proxyMark)
		switch {
		case !isProxy:
			users = append(users, name)
		case service != "":
			proxies = append(proxies, service)
		}
	}
	return acl{users: namesOf(users), groups: namesOf(entries(groupList)), proxies: namesOf(proxies)}
}

func entries(list string) []string {
	var found []string
	for entry := range strings.FieldsFuncSeq(list, func(sign rune) bool { return sign == ',' || sign == '\n' }) {
		if name := trim(entry); name != "" {
			found = append(found, name)
		}
	}
	return found
}

// trim removes what Java's String.trim removes.
func trim(text string) string {
	return strings.TrimFunc(text, func(sign rune) bool { return sign <= ' ' })
}
