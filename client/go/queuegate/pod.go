package queuegate

import (
	"cmp"
	"log/slog"
	"os"
	"strings"
)

const (
	// DefaultUser is the owner of a pod without a user.
	DefaultUser = "nobody"
	// LegacyUserLabel is the key of the user label that predates the annotation.
	LegacyUserLabel = "yunikorn.apache.org/username"
	// QueueKey is the key of a pod's queue label and queue annotation.
	QueueKey = "yunikorn.apache.org/queue"

	oldQueueLabel    = "queue"
	labelKeyVariable = "USER_LABEL_KEY"
	root             = "root"
	belowRoot        = "root."
)

// A PodOption changes how [PodOwner] reads a pod.
type PodOption func(*podOptions)

type podOptions struct {
	label string // the key of the user label to read; empty: none
}

// LegacyLabel uses a label if the annotation is missing or empty, and logs a warning. The key defaults
// to the environment variable USER_LABEL_KEY, or else to [LegacyUserLabel].
//
// Anyone who may create a pod can set the label to any name. YuniKorn 1.9 calls it unsupported, and
// later versions ignore it.
func LegacyLabel(key string) PodOption {
	key = cmp.Or(key, os.Getenv(labelKeyVariable), LegacyUserLabel)
	return func(options *podOptions) { options.label = key }
}

// PodOwner returns the owner of a pod with these annotations and labels.
//
// The owner is the user in [UserInfoAnnotation]. A pod without a user, or with an invalid annotation,
// which is logged, belongs to [DefaultUser]. Labels are read only with [LegacyLabel].
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

// PodQueue returns the path of the queue of a pod with these annotations and labels.
//
// As in YuniKorn, the label [QueueKey] takes precedence over the annotation with the same key, and the
// annotation over the label queue. Empty values are ignored. [ProvidedQueue] converts the name to a
// path. If the pod names no queue, the path is empty, and another placement rule selects the queue.
//
// YuniKorn places an application according to its first pod. Later pods with the same application ID
// join that application, regardless of the queues that they name.
func PodQueue(annotations, labels map[string]string, parent string) string {
	return ProvidedQueue(cmp.Or(labels[QueueKey], annotations[QueueKey], labels[oldQueueLabel]), parent)
}

// ProvidedQueue returns the path of the queue selected by YuniKorn's placement rule provided. A name
// starting with root. is a path. Any other name, even root, refers to a queue directly below a parent,
// and dots in it become _dot_.
//
// The parent is the path of the queue selected by the rule's parent, such as root.dev where a rule tag
// selects the namespace. It defaults to root, and root. is prepended if missing.
//
// The path is not validated: a server rejects paths with invalid characters.
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
