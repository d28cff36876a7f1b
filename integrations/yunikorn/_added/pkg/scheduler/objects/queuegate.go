package objects

import (
	"github.com/apache/yunikorn-core/pkg/common/security"
	"github.com/queuegate/queuegate/client/go/queuegate"
)

// SetPartition records the partition of a root queue, before the queue is used.
func (sq *Queue) SetPartition(name string) {
	sq.partition = name
}

// AskSubmitAccess returns whether queuegate lets a user submit to the queue, or an error if it gave
// no answer.
func (sq *Queue) AskSubmitAccess(user security.UserGroup) (bool, error) {
	return ask(queuegate.Submit, sq, user)
}

// CheckSubmitAccess returns whether queuegate lets a user submit to the queue. No answer is false.
func (sq *Queue) CheckSubmitAccess(user security.UserGroup) bool {
	granted, err := ask(queuegate.Submit, sq, user)
	return granted && err == nil
}

// CheckAdminAccess returns whether queuegate lets a user administer the queue. No answer is false.
func (sq *Queue) CheckAdminAccess(user security.UserGroup) bool {
	granted, err := ask(queuegate.Admin, sq, user)
	return granted && err == nil
}
