package queuegate_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/queuegate/queuegate/client/go/queuegate"
)

func Example() {
	client, err := queuegate.New(queuegate.Config{}) // at QUEUEGATE_ADDRESS, or on loopback
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	decision, err := client.Check(context.Background(), queuegate.Check{User: "alice", Queue: "root.research"})
	switch {
	case err != nil:
		fmt.Println("neither yes nor no:", err)
	case !decision.Allowed:
		fmt.Println("denied:", decision.Reason)
	}
}

func ExampleGate() {
	gate, err := queuegate.NewGate(queuegate.GateConfig{}) // for the server at QUEUEGATE_ADDRESS, or on loopback
	if err != nil {
		log.Fatal(err)
	}
	defer gate.Close()
	decision, err := gate.Check(context.Background(), queuegate.Check{User: "alice", Queue: "root.research"})
	switch {
	case err != nil:
		fmt.Println("the gate has to ask, and there is no answer:", err)
	case !decision.Allowed:
		fmt.Println("denied:", decision.Reason)
	}
}

func ExampleClient_CheckMany() {
	client, err := queuegate.New(queuegate.Config{
		Address: "queuegate.example.org:50052",
		TLS: &queuegate.TLS{
			CAFile:          "/etc/queuegate/tls/ca.crt",
			CertificateFile: "/etc/queuegate/tls/tls.crt",
			KeyFile:         "/etc/queuegate/tls/tls.key",
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	questions := []queuegate.Check{
		{User: "alice", Queue: "root.research", Groups: []string{"staff"}},
		{User: "bob", Queue: "root.research", Access: queuegate.Admin},
	}
	results, err := client.CheckMany(ctx, questions)
	if err != nil {
		log.Fatal(err)
	}
	for i, result := range results {
		fmt.Println(questions[i].User, result.Allowed, result.Reason, result.Err)
	}
}

func ExampleError() {
	client, err := queuegate.New(queuegate.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_, err = client.Check(context.Background(), queuegate.Check{User: "alice"})
	var failed *queuegate.Error
	if errors.Is(err, queuegate.ErrInvalidArgument) && errors.As(err, &failed) {
		for _, violation := range failed.Violations {
			fmt.Println(violation.Field, violation.Description)
		}
	}
	// Output: queue must not be empty
}

func ExamplePodOwner() {
	annotations := map[string]string{
		queuegate.UserInfoAnnotation: `{"user":"alice","groups":["staff"]}`,
	}
	owner := queuegate.PodOwner(annotations, nil)
	fmt.Println(owner.User, owner.Groups)
	// Output: alice [staff]
}

func ExamplePodQueue() {
	labels := map[string]string{"queue": "root.sandbox", queuegate.QueueKey: "root.etl"}
	fmt.Println(queuegate.PodQueue(nil, labels, ""))
	fmt.Println(queuegate.PodQueue(nil, map[string]string{"queue": "a.b"}, "root.dev"))
	// Output:
	// root.etl
	// root.dev.a_dot_b
}

func ExampleUserInfo_Annotation() {
	text, err := queuegate.UserInfo{User: "alice", Groups: []string{"staff"}}.Annotation()
	fmt.Println(text, err)
	// Output: {"user":"alice","groups":["staff"]} <nil>
}
