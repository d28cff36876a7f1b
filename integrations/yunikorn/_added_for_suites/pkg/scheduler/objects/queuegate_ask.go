package objects

import (
	"fmt"
	"sync"

	"github.com/apache/yunikorn-core/pkg/common/configs"
	"github.com/apache/yunikorn-core/pkg/common/security"
	"github.com/queuegate/queuegate/client/go/queuegate"
	"github.com/queuegate/queuegate/integrations/yunikorn/access"
	"github.com/queuegate/queuegate/integrations/yunikorn/suites"
)

// asking is held while a question is asked, because it may change the policy first.
var asking sync.Mutex

// ask replaces queuegate's policy by the ACLs of the queue and those above it, and then asks.
func ask(kind queuegate.Access, sq *Queue, user security.UserGroup) (bool, error) {
	asking.Lock()
	defer asking.Unlock()
	if err := suites.Serve(chainOf(sq)); err != nil {
		return false, fmt.Errorf("the queues were not handed over: %w", err)
	}
	return access.Granted(kind, suites.Partition, sq.QueuePath, user)
}

// chainOf returns the queue and those above it, from the root on, with their ACLs.
func chainOf(sq *Queue) configs.QueueConfig {
	var chain configs.QueueConfig
	for below := []configs.QueueConfig(nil); sq != nil; sq = sq.parent {
		sq.RLock()
		chain = configs.QueueConfig{
			Name:      sq.Name,
			SubmitACL: sq.submitACL.Text(),
			AdminACL:  sq.adminACL.Text(),
			Queues:    below,
		}
		sq.RUnlock()
		below = []configs.QueueConfig{chain}
	}
	return chain
}
