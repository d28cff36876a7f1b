package policy

import (
	"strings"
	"unicode/utf8"
)

const (
	// Root is the path of the queue above all others.
	Root          = "root"
	separator     = "."
	wildcard      = "*" // everyone
	anyName       = "*" // of a queue that will be created
	proxyMark     = "~"
	recoveryQueue = "root.@recovery@"
	// cluster stands for the path of a queue where the administrators of a cluster are listed.
	cluster = ""

	maxQueueName = 64

	// DefaultPartition is the partition of a question that names none.
	DefaultPartition = "default"
)

// PartitionName returns the name of a partition without the ID of a resource manager: [rm]gpu
// becomes gpu. An empty name becomes default.
func PartitionName(text string) string {
	if text == "" {
		return DefaultPartition
	}
	if text[0] == '[' {
		if end := strings.IndexByte(text, ']'); end > 0 {
			return text[end+1:]
		}
	}
	return text
}

// isUserName returns whether YuniKorn accepts the name of a user in a request with groups: a letter or _,
// then letters, digits and some signs, and perhaps a dollar sign at the end.
func isUserName(text string) bool {
	text = strings.TrimSuffix(text, "$")
	if text == "" || text[0] != '_' && !isLetter(text[0]) {
		return false
	}
	for i := 1; i < len(text); i++ {
		if sign := text[i]; !isLetter(sign) && !isDigit(sign) && strings.IndexByte(":#/_.@-", sign) < 0 {
			return false
		}
	}
	return true
}

func isLetter(sign byte) bool { return 'a' <= sign|0x20 && sign|0x20 <= 'z' }
func isDigit(sign byte) bool  { return '0' <= sign && sign <= '9' }

// queuePath returns the full path of a queue of YuniKorn in lower case; false if the text is none.
func queuePath(text string) (string, bool) {
	level := 0 // the length of the present one
	for i := range len(text) {
		sign := text[i]
		switch {
		case sign == '.':
			if level == 0 {
				return "", false
			}
			level = 0
		case isLetter(sign) || isDigit(sign) || strings.IndexByte("_:#/@-", sign) >= 0:
			if level++; level > maxQueueName {
				return "", false
			}
		default: // among them every sign that is not ASCII
			return "", false
		}
	}
	if level == 0 {
		return "", false
	}
	path := strings.ToLower(text)
	return path, path == Root || strings.HasPrefix(path, Root+".")
}

// yarnQueuePath returns the full path of a queue of YARN; false if a level is empty. Paths are
// case-sensitive, root. is optional, and a level may contain anything but a dot.
func yarnQueuePath(text string) (string, bool) {
	if text == "" || text[0] == '.' || text[len(text)-1] == '.' || strings.Contains(text, "..") {
		return "", false
	}
	if text == Root || strings.HasPrefix(text, Root+".") {
		return text, true
	}
	return Root + "." + text, true
}

// parentPath returns the path of the parent of a queue; empty for the root.
func parentPath(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '.'))]
}

// isRecoveryPath returns whether a path in lower case is the recovery queue or below it.
func isRecoveryPath(path string) bool {
	rest, isBelow := strings.CutPrefix(path, recoveryQueue)
	return isBelow && (rest == "" || rest[0] == '.')
}

// maxNameBytes is the limit of servers for names. Their limit for paths is larger.
const maxNameBytes = 1024

// IsPlain returns whether a server accepts a text as a name: short, and without control
// characters and line separators.
func IsPlain(text string) bool {
	return text != "" && len(text) <= maxNameBytes && !strings.ContainsFunc(text, isNotPlain)
}

func isNotPlain(sign rune) bool {
	return sign < 0x20 || 0x7f <= sign && sign < 0xa0 || sign == '\u2028' || sign == '\u2029' ||
		sign == utf8.RuneError
}
