package placement

import (
	"github.com/apache/yunikorn-core/pkg/common"
	"github.com/apache/yunikorn-core/pkg/log"
	"github.com/apache/yunikorn-core/pkg/scheduler/objects"
	"go.uber.org/zap"
)

// endWithoutAnswer ends the placement of an application when queuegate gave no answer. A later
// rule may not be tried: it could place the application in another queue than the answer would.
// Forced applications run already, and go to the recovery queue.
func endWithoutAnswer(app *objects.Application, noAnswer error) error {
	if app.IsCreateForced() {
		log.Log(log.SchedApplication).Warn("forced application goes to the recovery queue",
			zap.String("application", app.ApplicationID),
			zap.Error(noAnswer))
		app.SetQueuePath(common.RecoveryQueueFull)
		return nil
	}
	app.SetQueuePath("")
	return noAnswer
}
