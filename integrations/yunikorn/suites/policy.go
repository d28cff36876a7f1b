// Package suites lets queuegate serve the queues that a test of yunikorn-core makes in its code.
// Only a build of `prepare -suites` contains it.
package suites

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/apache/yunikorn-core/pkg/common/configs"
	"github.com/queuegate/queuegate/client/go/queuegate"
	"github.com/queuegate/queuegate/integrations/yunikorn/access"
	"go.yaml.in/yaml/v3"
)

// PolicyFile is the environment variable with the path of the queues.yaml that queuegate serves.
// This package writes the file, and nobody else.
const PolicyFile = "QUEUEGATE_SUITES_POLICY_FILE"

// Partition is the partition that queuegate serves the queues as.
const Partition = "default"

var served []byte

// Serve makes queuegate serve these queues and no others. It is not safe for concurrent use.
func Serve(root configs.QueueConfig) error {
	policy, err := yaml.Marshal(configs.SchedulerConfig{Partitions: []configs.PartitionConfig{
		{Name: Partition, Queues: []configs.QueueConfig{root}},
	}})
	if err != nil || bytes.Equal(policy, served) {
		return err
	}
	served = nil
	if err := write(os.Getenv(PolicyFile), policy); err != nil {
		return err
	}
	client, err := access.Client()
	if err != nil {
		return err
	}
	reloaded, err := client.Reload(context.Background(), queuegate.ReloadOptions{})
	if err != nil {
		return err
	}
	if !reloaded.Succeeded {
		return fmt.Errorf("queuegate cannot serve the queues: %v", reloaded.Diagnostics)
	}
	served = policy
	return nil
}

// write replaces the file in one step, so that a server never reads half of it.
func write(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
