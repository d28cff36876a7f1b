// The server of github.com/casbin/casbin-server. Its own main listens on all addresses of the
// machine; this one listens on loopback, on a port that the kernel chooses.
package main

import (
	"fmt"
	"log"
	"net"

	"github.com/casbin/casbin-server/proto"
	"github.com/casbin/casbin-server/server"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	grpcServer := grpc.NewServer()
	proto.RegisterCasbinServer(grpcServer, server.NewServer())
	reflection.Register(grpcServer)
	fmt.Printf("serving casbin-server on %s\n", listener.Addr())
	log.Fatal(grpcServer.Serve(listener))
}
