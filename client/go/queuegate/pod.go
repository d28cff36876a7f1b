package queuegate

import (
	"cmp"
	"log/slog"
	"os"
	"strings"
)

const (
	// DefaultUser is the owner of a pod that names no user.
	DefaultUser = "nobody"
	// LegacyUserLabel is the key of the label that named the user of a pod before the annotation
	// existed.
	LegacyUserLabel = "yunikorn.apache.org/username"
	// QueueKey is the key of the label, and of the annotation, of a pod that names its queue.
	QueueKey = "yunikorn.apache.org/queue"

	oldQueueLabel    = "queue"
	labelKeyVariable = "USER_LABEL_KEY"
	root             = "root"
	belowRoot        = "root."
)

// A PodOption changes how [PodOwner] reads a pod.
type PodOption func(*podOptions)

type podOptions struct {
	label string // that may name the user; empty: none
}

// LegacyLabel lets a label name the user of a pod whose annotation is missing or empty, with a
// warning in the log. An empty key stands for the one in the environment variable USER_LABEL_KEY,
// or else for [LegacyUserLabel].
//
// Anyone who may create a pod can write any name there. YuniKorn 1.9 calls the label unsupported,
// and later versions do not read it.
func LegacyLabel(key string) PodOption {
	key = cmp.Or(key, os.Getenv(labelKeyVariable), LegacyUserLabel)
	return func(options *podOptions) { options.label = key }
}

// PodOwner returns the owner of a pod with these annotations and labels.
//
// The annotation [UserInfoAnnotation] names the owner. An invalid one is logged. A pod that names no
// user belongs to [DefaultUser]. No label is read unless [LegacyLabel] asks for it.
func PodOwner(annotations, labels map[string]string, options ...PodOption) UserInfo {
	if text := annotations[UserInfoAnnotation]; text != "" {
		info, err := ParseUserInfo(text)
		if err != nil {
			slog.Warn("the pod belongs to "+DefaultUser, "error", err)
		}
		info.User = cmp.Or(info.User, DefaultUser)
		return info
	}
	var chosen podOptions
	for _, option := range options {
		option(&chosen)
	}
	if chosen.label == "" || labels[chosen.label] == "" {
		return UserInfo{User: DefaultUser}
	}
	slog.Warn("the user of a pod was taken from a deprecated label; use "+UserInfoAnnotation,
		"label", chosen.label)
	return UserInfo{User: labels[chosen.label]}
}

// PodQueue returns the path of the queue that a pod with these annotations and labels names.
//
// As in YuniKorn, the label [QueueKey] takes precedence over the annotation of that name, and the
// annotation over the label queue; empty values are ignored. [ProvidedQueue] turns the name into a
// path. The result is empty for a pod that names no queue: another placement rule then selects one.
//
// YuniKorn places an application according to its first pod, and a later pod with the same application
// ID joins it, whichever queue that pod names.
func PodQueue(annotations, labels map[string]string, parent string) string {
	return ProvidedQueue(cmp.Or(labels[QueueKey], annotations[QueueKey], labels[oldQueueLabel]), parent)
}

// ProvidedQueue returns the path of the queue that YuniKorn's placement rule provided selects for a
// name. A name that begins with root. is a path. Any other name, even root, stands for one queue below
// a parent, and a dot in it becomes _dot_.
//
// The parent is the path of the queue that the parent of the rule selects, such as root.dev where a
// rule tag selects the namespace. Empty: root. Any other path is taken to be below root.
//
// The path is not checked: a server refuses one with a character that no queue can have.
func ProvidedQueue(name, parent string) string {
	if name == "" || strings.HasPrefix(name, belowRoot) {
		return name
	}
	switch {
	case parent == "":
		parent = root
	case parent != root && !strings.HasPrefix(parent, belowRoot):
		parent = belowRoot + parent
	}
	return parent + "." + strings.ReplaceAll(name, ".", "_dot_")
}
