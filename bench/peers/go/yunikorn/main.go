// YuniKorn's own configuration reader and ACLs behind a minimal gRPC handler of our contract.
//
// The walk from a queue up to the root is ours, because YuniKorn's is tied to its scheduler:
// submission is granted by the submit or the admin ACL of any level, administration by the
// admin ACL of any level (pkg/scheduler/objects/queue.go).
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"strings"

	"github.com/apache/yunikorn-core/pkg/common/configs"
	"github.com/apache/yunikorn-core/pkg/common/security"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"queuegate/bench/peers/yunikorn/contract"
)

type queue struct {
	submit, admin security.ACL
	parent        *queue
}

func (q *queue) allows(user security.UserGroup, access contract.AccessType) bool {
	for ; q != nil; q = q.parent {
		if access == contract.AccessType_ACCESS_TYPE_SUBMIT && q.submit.CheckAccess(user) {
			return true
		}
		if q.admin.CheckAccess(user) {
			return true
		}
	}
	return false
}

type service struct {
	contract.UnimplementedAccessServiceServer
	queues map[string]*queue
}

func (s *service) CheckQueueAccess(
	_ context.Context, request *contract.CheckQueueAccessRequest,
) (*contract.CheckQueueAccessResponse, error) {
	found := s.queues[strings.ToLower(request.GetQueue())]
	if found == nil {
		return nil, status.Error(codes.NotFound, "no such queue")
	}
	user := security.UserGroup{User: request.GetUser().GetUser(), Groups: request.GetUser().GetGroups()}
	return &contract.CheckQueueAccessResponse{Allowed: found.allows(user, request.GetAccess())}, nil
}

// add keeps a queue and all below it.
func (s *service) add(config configs.QueueConfig, path string, parent *queue) error {
	submit, err := security.NewACL(config.SubmitACL, true)
	if err != nil {
		return err
	}
	admin, err := security.NewACL(config.AdminACL, true)
	if err != nil {
		return err
	}
	path += strings.ToLower(config.Name)
	added := &queue{submit, admin, parent}
	s.queues[path] = added
	for _, child := range config.Queues {
		if err := s.add(child, path+".", added); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: yunikorn QUEUES_YAML")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	config, err := configs.LoadSchedulerConfigFromByteArray(text)
	if err != nil {
		log.Fatal(err)
	}
	served := &service{queues: map[string]*queue{}}
	for _, root := range config.Partitions[0].Queues {
		if err := served.add(root, "", nil); err != nil {
			log.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	contract.RegisterAccessServiceServer(server, served)
	fmt.Printf("serving %d queues on %s\n", len(served.queues), listener.Addr())
	log.Fatal(server.Serve(listener))
}
