// The command scheduler runs yunikorn-core without a cluster, to try who may submit where.
//
//	scheduler queues.yaml
//
// It reads applications from standard input, each a line with the JSON of a message
// si.v1.AddApplicationRequest, hands them to the scheduler as a shim would, and prints whether the
// scheduler accepts them.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/apache/yunikorn-core/pkg/entrypoint"
	"github.com/apache/yunikorn-core/pkg/mock"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/protobuf/encoding/protojson"
)

const manager = "rm"

// callback prints the answers of the scheduler.
type callback struct {
	mock.ResourceManagerCallback
	answered chan string
}

func (c *callback) UpdateApplication(response *si.ApplicationResponse) error {
	for _, accepted := range response.Accepted {
		c.answered <- accepted.ApplicationID + ": accepted"
	}
	for _, rejected := range response.Rejected {
		reason := strings.ReplaceAll(rejected.Reason, "\n", ": ") // of joined errors
		c.answered <- rejected.ApplicationID + ": rejected: " + reason
	}
	return nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: scheduler queues.yaml")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	config, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	scheduler := entrypoint.StartAllServicesWithManualScheduler().RMProxy
	answered := make(chan string)
	_, err = scheduler.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID:        manager,
		PolicyGroup: "queues",
		Version:     "1",
		Config:      string(config),
	}, &callback{answered: answered})
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		application := &si.AddApplicationRequest{}
		if err := protojson.Unmarshal(lines.Bytes(), application); err != nil {
			return err
		}
		err = scheduler.UpdateApplication(&si.ApplicationRequest{
			RmID: manager,
			New:  []*si.AddApplicationRequest{application},
		})
		if err != nil {
			return err
		}
		fmt.Println(<-answered)
	}
	return lines.Err()
}
