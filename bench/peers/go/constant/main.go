// The floor of what compiled code costs: a grpc-go server that answers every unary call
// with the same bytes and looks into none, as bench/bare.py does on grpc.aio.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// asItIs hands messages over as the bytes that they are.
type asItIs struct{}

func (asItIs) Name() string { return "proto" }

func (asItIs) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*message.(*[]byte))}, nil
}

func (asItIs) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = asItIs{}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: constant ANSWER (a file)")
	}
	answer, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(asItIs{}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "queuegate.v1.AccessService",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "CheckQueueAccess", Handler: constant(answer)}},
	}, nil)
	fmt.Printf("serving a constant on %s\n", listener.Addr())
	log.Fatal(server.Serve(listener))
}

func constant(answer []byte) grpc.MethodHandler {
	return func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var request []byte
		if err := decode(&request); err != nil {
			return nil, err
		}
		return &answer, nil
	}
}
