// Command go-shim shows how a shim asks queuegate: only applications that may use their queue get
// through to the scheduler.
//
// It reads si.v1.ApplicationRequest messages as JSON, and writes a si.v1.ApplicationResponse for
// each:
//
//	echo '{"new": [{"applicationID": "app-1", "queueName": "root.sandbox", "ugi": {"user": "sue"}}]}' | go run .
//
// The server is at QUEUEGATE_ADDRESS, or on loopback.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/queuegate/queuegate/client/go/queuegate"
)

func main() {
	log.SetFlags(0)
	client, err := queuegate.New(queuegate.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	requests, responses := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var text json.RawMessage
		if err := requests.Decode(&text); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatalf("standard input: %v", err)
		}
		var request si.ApplicationRequest
		if err := protojson.Unmarshal(text, &request); err != nil {
			log.Fatalf("standard input: %v", err)
		}
		response, err := protojson.Marshal(decide(context.Background(), client, &request))
		if err != nil {
			log.Fatal(err)
		}
		if err := responses.Encode(json.RawMessage(response)); err != nil {
			log.Fatal(err)
		}
	}
}

// decide accepts or rejects the new applications of a request.
func decide(
	ctx context.Context, client *queuegate.Client, request *si.ApplicationRequest,
) *si.ApplicationResponse {
	response := &si.ApplicationResponse{}
	for _, application := range request.GetNew() {
		id := application.GetApplicationID()
		if reason := rejection(ctx, client, application); reason != "" {
			response.Rejected = append(response.Rejected, &si.RejectedApplication{ApplicationID: id, Reason: reason})
		} else {
			response.Accepted = append(response.Accepted, &si.AcceptedApplication{ApplicationID: id})
		}
	}
	return response
}

// rejection returns why an application is rejected. It is empty only if access is allowed.
func rejection(
	ctx context.Context, client *queuegate.Client, application *si.AddApplicationRequest,
) string {
	question := queuegate.Check{
		User:   application.GetUgi().GetUser(),
		Groups: application.GetUgi().GetGroups(), // none: the server looks them up
		// A pod may name its queue without a path.
		Queue:     queuegate.ProvidedQueue(application.GetQueueName(), ""),
		Partition: application.GetPartitionName(),
	}
	for {
		decision, err := client.Check(ctx, question)
		var failed *queuegate.Error
		switch {
		case err == nil && decision.Allowed:
			return ""
		case err == nil:
			return fmt.Sprintf("%s may not submit to %s (%s)", question.User, question.Queue, decision.Reason)
		case ctx.Err() != nil || !mayWait(err) || !errors.As(err, &failed):
			return err.Error() // asking again does not help
		}
		// Neither allowed nor denied: the application waits.
		wait := max((failed.RetryAfter + time.Second - 1).Truncate(time.Second), time.Second)
		log.Printf("%s waits %v: %v", application.GetApplicationID(), wait, err)
		time.Sleep(wait)
	}
}

// mayWait reports whether the application may wait, because the error is not its fault: there is no
// answer now, or this shim lacks a credential or a role.
func mayWait(err error) bool {
	return errors.Is(err, queuegate.ErrUnavailable) || errors.Is(err, queuegate.ErrNotPermitted)
}
