package queuegate

import (
	"context"
	"errors"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// A fake is a scripted server of the contract on a real socket, which records requests. It allows
// all users except those whose name starts with "denied". In a batch, it fails for users whose name
// starts with "faulty".
type fake struct {
	queuegatev1.UnimplementedAccessServiceServer
	queuegatev1.UnimplementedUserGroupServiceServer
	queuegatev1.UnimplementedPolicyServiceServer
	address string
	server  *grpc.Server
	columns bool // whether the server supports them

	mutex    sync.Mutex
	requests []any
	headers  []metadata.MD
	faults   []fault
	answer   any // the response to the next calls, if not nil
	arrived  chan struct{}
	streams  chan *fakeStream
}

// A syncFake passes streams to the test.
type syncFake struct {
	queuegatev1.UnimplementedSyncServiceServer
	streams chan *fakeStream
}

type fakeStream struct {
	grpc.BidiStreamingServer[queuegatev1.SyncRequest, queuegatev1.SyncResponse]
	end      chan error
	requests chan *queuegatev1.SyncRequest // closed when the stream ends
	answers  atomic.Bool                   // whether pings are answered immediately
	sending  sync.Mutex
}

// receive reads the gate's messages, so that the gate keeps its lease without the test reading them.
func (s *fakeStream) receive() {
	defer close(s.requests)
	for {
		request, err := s.Recv()
		if err != nil {
			return
		}
		if ping := request.GetPing(); ping != nil && s.answers.Load() {
			if s.transmit(pongTo(ping)) != nil {
				return
			}
			continue
		}
		select {
		case s.requests <- request:
		case <-s.Context().Done():
			return
		}
	}
}

func (s *fakeStream) transmit(response *queuegatev1.SyncResponse) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.Send(response)
}

func pongTo(ping *queuegatev1.SyncPing) *queuegatev1.SyncResponse {
	return &queuegatev1.SyncResponse{Message: &queuegatev1.SyncResponse_Pong{Pong: &queuegatev1.SyncPong{Id: ping.Id}}}
}

func (f syncFake) Sync(
	stream grpc.BidiStreamingServer[queuegatev1.SyncRequest, queuegatev1.SyncResponse],
) error {
	opened := &fakeStream{
		BidiStreamingServer: stream, end: make(chan error), requests: make(chan *queuegatev1.SyncRequest, 10_000),
	}
	go opened.receive()
	select {
	case f.streams <- opened:
	case <-stream.Context().Done():
		return nil
	}
	select {
	case err := <-opened.end:
		return err
	case <-stream.Context().Done():
		return nil
	}
}

// A fault is the outcome of a failing call.
type fault struct {
	err      error
	pushback string
	hang     bool // until the caller times out
}

func startFake(t *testing.T, options ...grpc.ServerOption) *fake {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startFakeAt(t, listener, options...)
}

func startFakeAt(t *testing.T, listener net.Listener, options ...grpc.ServerOption) *fake {
	t.Helper()
	started := &fake{address: listener.Addr().String(), arrived: make(chan struct{}, 10_000), streams: make(chan *fakeStream)}
	started.server = grpc.NewServer(append(options, grpc.UnaryInterceptor(started.intercept))...)
	queuegatev1.RegisterAccessServiceServer(started.server, started)
	queuegatev1.RegisterUserGroupServiceServer(started.server, started)
	queuegatev1.RegisterPolicyServiceServer(started.server, started)
	queuegatev1.RegisterSyncServiceServer(started.server, syncFake{streams: started.streams})
	healthpb.RegisterHealthServer(started.server, health.NewServer())
	go started.server.Serve(listener)
	t.Cleanup(started.server.Stop)
	return started
}

func (f *fake) intercept(
	ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	f.mutex.Lock()
	f.requests = append(f.requests, request)
	header, _ := metadata.FromIncomingContext(ctx)
	f.headers = append(f.headers, header)
	var next fault
	if len(f.faults) > 0 {
		next, f.faults = f.faults[0], f.faults[1:]
	}
	answer := f.answer
	f.mutex.Unlock()
	f.arrived <- struct{}{}
	if next.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if next.pushback != "" {
		if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", next.pushback)); err != nil {
			return nil, err
		}
	}
	if next.err != nil {
		return nil, next.err
	}
	if answer != nil {
		return answer, nil
	}
	return handle(ctx, request)
}

// fail makes the next calls fail.
func (f *fake) fail(faults ...fault) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.faults = append(f.faults, faults...)
}

func (f *fake) always(answer any) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.answer = answer
}

func (f *fake) seen() []any {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return append([]any(nil), f.requests...)
}

func (f *fake) authorizations() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var headers []string
	for _, each := range f.headers {
		headers = append(headers, strings.Join(each.Get("authorization"), ","))
	}
	return headers
}

func decided(user, queue string) *queuegatev1.CheckQueueAccessResponse {
	if strings.HasPrefix(user, "denied") {
		return &queuegatev1.CheckQueueAccessResponse{
			Reason: queuegatev1.Reason_REASON_NO_MATCH, PolicyRevision: 7,
		}
	}
	return &queuegatev1.CheckQueueAccessResponse{
		Allowed: true, Reason: queuegatev1.Reason_REASON_USER,
		MatchedQueue: queue, MatchedSubject: user, PolicyRevision: 7,
	}
}

var badQueue = detailed(codes.InvalidArgument, "queue: bad", "INVALID_FIELD",
	&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: "queue", Description: "bad"},
	}})

// detailed returns an error in the form sent by a queuegate server.
func detailed(code codes.Code, message, reason string, details ...protoadapt.MessageV1) error {
	info := &errdetails.ErrorInfo{Domain: "queuegate", Reason: reason}
	failure, err := status.New(code, message).WithDetails(append(details, info)...)
	if err != nil {
		panic(err)
	}
	return failure.Err()
}

func retryAfter(delay time.Duration) protoadapt.MessageV1 {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)}
}

func itemError(err error) *queuegatev1.Status {
	given := status.Convert(err).Proto()
	return &queuegatev1.Status{Code: given.Code, Message: given.Message, Details: given.Details}
}

func (f *fake) CheckQueueAccess(
	_ context.Context, request *queuegatev1.CheckQueueAccessRequest,
) (*queuegatev1.CheckQueueAccessResponse, error) {
	return decided(request.User.User, request.Queue), nil
}

func (f *fake) BatchCheckQueueAccess(
	_ context.Context, request *queuegatev1.BatchCheckQueueAccessRequest,
) (*queuegatev1.BatchCheckQueueAccessResponse, error) {
	response := &queuegatev1.BatchCheckQueueAccessResponse{}
	firstFault := -1
	for i, each := range request.Checks {
		result := &queuegatev1.CheckResult{}
		switch faulty := strings.HasPrefix(each.User.User, "faulty"); {
		case !faulty:
			result.Outcome = &queuegatev1.CheckResult_Decision{Decision: decided(each.User.User, each.Queue)}
		case firstFault < 0:
			result.Outcome = &queuegatev1.CheckResult_Error{Error: itemError(badQueue)}
			firstFault = i
		default:
			result.Outcome = &queuegatev1.CheckResult_SameErrorAs{SameErrorAs: uint32(firstFault)}
		}
		response.Results = append(response.Results, result)
	}
	return response, nil
}

func (f *fake) CheckQueueAccessColumns(
	_ context.Context, request *queuegatev1.CheckQueueAccessColumnsRequest,
) (*queuegatev1.CheckQueueAccessColumnsResponse, error) {
	if !f.columns {
		return nil, status.Error(codes.Unimplemented, "as an older server does")
	}
	response := &queuegatev1.CheckQueueAccessColumnsResponse{}
	failed := &queuegatev1.ColumnsError{Error: itemError(badQueue)}
	for i, index := range request.UserIndexes {
		user := request.Users[index].User
		if strings.HasPrefix(user, "faulty") {
			failed.Questions = append(failed.Questions, uint32(i))
			response.DecisionIndexes = append(response.DecisionIndexes, 0)
			continue
		}
		decision := decided(user, request.Queues[request.QueueIndexes[i]])
		if groups := request.Users[index].Groups; decision.Allowed && len(groups) > 0 {
			decision.MatchedSubject = strings.Join(groups, "+")
		}
		response.Decisions = append(response.Decisions, decision)
		response.DecisionIndexes = append(response.DecisionIndexes, uint32(len(response.Decisions)))
	}
	if failed.Questions != nil {
		response.Errors = append(response.Errors, failed)
	}
	return response, nil
}

// connect returns a client of the fake, with a time limit that is never reached.
func (f *fake) connect(t *testing.T, config Config) *Client {
	t.Helper()
	if config.Address == "" {
		config.Address = f.address
	}
	if config.Timeout == 0 {
		config.Timeout = time.Minute
	}
	return connect(t, config)
}

func connect(t *testing.T, config Config) *Client {
	t.Helper()
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// inRepository returns the path of a file in the repository, outside the module.
func inRepository(t *testing.T, name string) string {
	t.Helper()
	file := filepath.FromSlash(path.Join("../../..", name))
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		t.Skip("only in the repository: " + name)
	}
	return file
}

func written(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func expectError(t *testing.T, err error, kind error, text string) {
	t.Helper()
	if !errors.Is(err, kind) || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("got %v (%v), want %v: %q", err, errors.Unwrap(err), kind, text)
	}
	if err != nil && (!strings.HasPrefix(err.Error(), "queuegate: ") ||
		strings.Contains(err.Error()[1:], "queuegate: ")) {
		t.Errorf("want the prefix of the package once: %v", err)
	}
}
