package policy

import (
	"strings"
	"unicode/utf8"
)

const (
	// Root is the path of the root queue.
	Root          = "root"
	separator     = "."
	wildcard      = "*" // everyone
	anyName       = "*" // any created queue
	proxyMark     = "~"
	recoveryQueue = "root.@recovery@"
	// cluster is the queue path that represents the cluster and its administrators.
	cluster = ""

	maxQueueName = 64

	// DefaultPartition is the partition of a request that names none.
	DefaultPartition = "default"
)

// PartitionName returns the name of a partition without the resource manager ID: [rm]gpu becomes gpu.
// An empty name becomes default.
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

// isUserName returns whether YuniKorn accepts a user name in a request with groups: a letter or _,
// followed by letters, digits and some punctuation, and optionally a final dollar sign.
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

// queuePath returns the full path of a YuniKorn queue in lower case; false if the text is not a path.
func queuePath(text string) (string, bool) {
	level := 0 // the length of the current level
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
		default: // including all non-ASCII characters
			return "", false
		}
	}
	if level == 0 {
		return "", false
	}
	path := strings.ToLower(text)
	return path, path == Root || strings.HasPrefix(path, Root+".")
}

// yarnQueuePath returns the full path of a YARN queue; false if a level is empty. Paths are
// case-sensitive, root. is optional, and a level may contain any character but a dot.
func yarnQueuePath(text string) (string, bool) {
	if text == "" || text[0] == '.' || text[len(text)-1] == '.' || strings.Contains(text, "..") {
		return "", false
	}
	if text == Root || strings.HasPrefix(text, Root+".") {
		return text, true
	}
	return Root + "." + text, true
}

// parentPath returns the path of the parent queue; empty for the root.
func parentPath(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '.'))]
}

// isRecoveryPath returns whether a lower-case path is at or below the recovery queue.
func isRecoveryPath(path string) bool {
	rest, isBelow := strings.CutPrefix(path, recoveryQueue)
	return isBelow && (rest == "" || rest[0] == '.')
}

// maxNameBytes is the servers' limit for names. Their limit for paths is larger.
const maxNameBytes = 1024

// IsPlain returns whether a server certainly accepts a text as a name: it is short, and contains no
// control characters or line separators.
func IsPlain(text string) bool {
	return text != "" && len(text) <= maxNameBytes && !strings.ContainsFunc(text, isNotPlain)
}

func isNotPlain(sign rune) bool {
	return sign < 0x20 || 0x7f <= sign && sign < 0xa0 || sign == '\u2028' || sign == '\u2029' ||
		sign == utf8.RuneError
}
