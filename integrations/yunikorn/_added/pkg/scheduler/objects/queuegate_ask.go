package objects

import (
	"github.com/apache/yunikorn-core/pkg/common/security"
	"github.com/queuegate/queuegate/client/go/queuegate"
	"github.com/queuegate/queuegate/integrations/yunikorn/access"
)

// ask takes no lock: partition, path and parent of a queue never change.
func ask(kind queuegate.Access, sq *Queue, user security.UserGroup) (bool, error) {
	root := sq
	for root.parent != nil {
		root = root.parent
	}
	return access.Granted(kind, root.partition, sq.QueuePath, user)
}
