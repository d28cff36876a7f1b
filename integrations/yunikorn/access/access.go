// Package access asks queuegate whether a user may use a queue of the scheduler.
package access

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/yunikorn-core/pkg/common/security"
	"github.com/apache/yunikorn-core/pkg/log"
	"github.com/queuegate/queuegate/client/go/queuegate"
	"go.uber.org/zap"
)

// Timeout bounds a question, with all its retries: the scheduler waits for the answer, and holds
// locks meanwhile.
const Timeout = time.Second

var shared struct {
	sync.Mutex
	client *queuegate.Client
}

// Client returns the client of this process. Its settings come from the environment. While it
// cannot be made, for example because a file is not there yet, each call tries again.
func Client() (*queuegate.Client, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.client == nil {
		client, err := queuegate.New(queuegate.Config{Timeout: Timeout})
		if err != nil {
			return nil, err
		}
		shared.client = client
	}
	return shared.client, nil
}

// Granted returns whether queuegate grants a user access to a queue, and logs the answer. An error
// is neither a yes nor a no: queuegate gave no answer.
func Granted(kind queuegate.Access, partition, queue string, user security.UserGroup) (bool, error) {
	logger := log.Log(log.Security).With(
		zap.String("partition", partition),
		zap.String("queue", queue),
		zap.String("access", string(kind)),
		zap.String("user", user.User),
	)
	decision, err := ask(kind, partition, queue, user)
	switch {
	case err != nil:
		logger.Warn("access denied: queuegate gave no answer", zap.String("error", err.Error()))
		return false, fmt.Errorf("queuegate gave no answer: %w", err)
	case !decision.Allowed:
		logger.Info("access denied by queuegate", zap.String("reason", string(decision.Reason)))
	default:
		logger.Debug("access granted by queuegate", zap.String("reason", string(decision.Reason)))
	}
	return decision.Allowed, nil
}

func ask(
	kind queuegate.Access, partition, queue string, user security.UserGroup,
) (queuegate.Decision, error) {
	if partition == "" { // which queuegate would take for the partition default
		return queuegate.Decision{}, errors.New("the partition of the queue is not known")
	}
	client, err := Client()
	if err != nil {
		return queuegate.Decision{}, err
	}
	return client.Check(context.Background(), queuegate.Check{
		User:      user.User,
		Groups:    user.Groups,
		Partition: partition,
		Queue:     queue,
		Access:    kind,
	})
}
