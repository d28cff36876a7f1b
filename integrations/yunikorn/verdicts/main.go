// The command verdicts says which queues.yaml documents yunikorn-core loads.
//
// Each line of its standard input is a JSON string, a document. It prints a JSON string for each: empty if
// the document loads, and otherwise the first error of the validator, of the scheduler at its start, or of
// the placement rules, for which the scheduler refuses to reload the document.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/apache/yunikorn-core/pkg/common/configs"
	"github.com/apache/yunikorn-core/pkg/entrypoint"
	"github.com/apache/yunikorn-core/pkg/log"
	"github.com/apache/yunikorn-core/pkg/mock"
	"github.com/apache/yunikorn-core/pkg/scheduler/placement"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"go.uber.org/zap"
)

const longest = 16 << 20 // bytes of a line

func main() {
	quiet := zap.NewProductionConfig()
	log.InitializeLogger(zap.NewNop(), &quiet)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longest)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var document string
		err := json.Unmarshal(lines.Bytes(), &document)
		if err == nil {
			err = out.Encode(text(verdict(document)))
		}
		if err != nil {
			fail(err)
		}
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "verdicts:", err)
	os.Exit(1)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func verdict(document string) error {
	config, err := configs.LoadSchedulerConfigFromByteArray([]byte(document))
	if err != nil {
		return err
	}
	for _, partition := range config.Partitions {
		// A new manager logs the error, and goes on without rules; an existing one returns it.
		manager := placement.NewPlacementManager(nil, nil, true)
		if err := manager.UpdateRules(partition.PlacementRules); err != nil {
			return err
		}
	}
	return start(document)
}

func start(document string) error {
	services := entrypoint.StartAllServicesWithManualScheduler()
	defer services.StopAll()
	_, err := services.RMProxy.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID: "rm", PolicyGroup: "queues", Version: "1", Config: document,
	}, &mock.ResourceManagerCallback{})
	return err
}
