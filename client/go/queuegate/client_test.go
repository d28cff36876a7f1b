package queuegate

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

var unavailable3 = []fault{unavailableFault, unavailableFault, unavailableFault}

var (
	unavailableFault = fault{err: status.Error(codes.Unavailable, "scripted")}
	always           = append(append(unavailable3, unavailable3...), unavailable3...)
	view             = ApplicationCheck{
		User: "alice", Action: View, Application: &queuegatev1.Application{Queue: "root.a", Owner: "bob"},
	}
)

// calls contains every call of a client.
var calls = map[string]func(context.Context, *Client) error{
	"Check": func(ctx context.Context, c *Client) error {
		_, err := c.Check(ctx, Check{User: "alice", Queue: "root"})
		return err
	},
	"CheckMany": func(ctx context.Context, c *Client) error {
		_, err := c.CheckMany(ctx, []Check{{User: "alice", Queue: "root"}})
		return err
	},
	"CheckMany, columns": func(ctx context.Context, c *Client) error {
		_, err := c.CheckMany(ctx, repeated(Check{User: "alice", Queue: "root"}, 64))
		return err
	},
	"Explain": func(ctx context.Context, c *Client) error {
		_, err := c.Explain(ctx, Check{User: "alice", Queue: "root"})
		return err
	},
	"CheckApplication": func(ctx context.Context, c *Client) error {
		_, err := c.CheckApplication(ctx, view)
		return err
	},
	"CheckApplications": func(ctx context.Context, c *Client) error {
		_, err := c.CheckApplications(ctx, []ApplicationCheck{view})
		return err
	},
	"ExplainApplication": func(ctx context.Context, c *Client) error {
		_, err := c.ExplainApplication(ctx, view)
		return err
	},
	"Queues": func(ctx context.Context, c *Client) error {
		_, err := c.ListQueues(ctx, QueueListing{User: "alice"})
		return err
	},
	"ExplainQueues": func(ctx context.Context, c *Client) error {
		_, err := c.ExplainQueues(ctx, QueueListing{User: "alice"})
		return err
	},
	"ListUsers": func(ctx context.Context, c *Client) error {
		for _, err := range c.ListUsers(ctx, UserListing{Queue: "root"}) {
			return err
		}
		return nil
	},
	"Resolve": func(ctx context.Context, c *Client) error {
		_, err := c.Resolve(ctx, "alice", ResolveOptions{})
		return err
	},
	"Invalidate": func(ctx context.Context, c *Client) error {
		_, err := c.Invalidate(ctx, []string{"alice"}, InvalidateOptions{})
		return err
	},
	"InvalidateAll": func(ctx context.Context, c *Client) error {
		_, err := c.InvalidateAll(ctx, InvalidateOptions{})
		return err
	},
	"Policy": func(ctx context.Context, c *Client) error {
		_, err := c.GetPolicy(ctx, "", "")
		return err
	},
	"Reload": func(ctx context.Context, c *Client) error {
		_, err := c.Reload(ctx, ReloadOptions{})
		return err
	},
	"Fleet": func(ctx context.Context, c *Client) error {
		_, err := c.GetFleet(ctx)
		return err
	},
	"Validate": func(ctx context.Context, c *Client) error {
		_, err := c.Validate(ctx, "", "")
		return err
	},
}

func repeated[T any](one T, count int) []T {
	all := make([]T, count)
	for i := range all {
		all[i] = one
	}
	return all
}

func TestEveryCallIsInTheTable(t *testing.T) {
	methods := reflect.TypeFor[*Client]().NumMethod()
	if others := 2; methods != len(calls)-1+others { // one appears twice; Close and Health are absent
		t.Errorf("%d methods", methods)
	}
}

func TestUnavailableIsTriedFourTimes(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			server := startFake(t)
			server.fail(always...)
			err := call(t.Context(), server.connect(t, Config{}))
			expectError(t, err, ErrServerUnavailable, "scripted")
			if tried := len(server.seen()); tried != 4 {
				t.Errorf("%d attempts", tried)
			}
		})
	}
}

func TestARetryThatSucceedsIsNotNoticed(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	server.fail(unavailableFault, fault{err: status.Error(codes.Canceled, "shutting down")}, unavailableFault)
	decision, err := client.Check(t.Context(), Check{User: "alice", Queue: "root"})
	if !decision.Allowed || err != nil || len(server.seen()) != 4 {
		t.Error(decision, err, len(server.seen()))
	}
}

func TestAttemptsAreASetting(t *testing.T) {
	for _, attempts := range []int{1, 2, 5} {
		server := startFake(t)
		server.fail(always...)
		quick := 10 * time.Millisecond
		client := server.connect(t, Config{Retry: Retry{attempts, quick, quick}})
		_, err := client.Check(t.Context(), Check{User: "alice", Queue: "root"})
		expectError(t, err, ErrServerUnavailable, "scripted")
		if tried := len(server.seen()); tried != attempts {
			t.Errorf("got %d attempts, want %d", tried, attempts)
		}
	}
}

func TestTheServerSaysWhenToTryAgain(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	server.fail(fault{err: unavailableFault.err, pushback: "200"})
	start := time.Now()
	if err := calls["Check"](t.Context(), client); err != nil || time.Since(start) < 200*time.Millisecond {
		t.Error(err, time.Since(start))
	}
	server.fail(fault{err: unavailableFault.err, pushback: "-1"})
	err := calls["Check"](t.Context(), client)
	expectError(t, err, ErrServerUnavailable, "scripted")
	if tried := len(server.seen()); tried != 3 {
		t.Errorf("%d attempts", tried)
	}
}

func TestRetriesPauseWhenMostCallsFail(t *testing.T) {
	server := startFake(t)
	quick := 10 * time.Millisecond
	client := server.connect(t, Config{Retry: Retry{4, quick, quick}})
	for range 100 {
		server.fail(always...)
		if err := calls["Check"](t.Context(), client); err == nil {
			t.Fatal("no error")
		}
	}
	if tried := len(server.seen()); tried <= 100 || tried >= 200 {
		t.Errorf("%d attempts", tried)
	}
}

func TestAFullSizeBatchIsTriedAgainToo(t *testing.T) {
	server := startFake(t)
	questions := manyUsers(10_000)
	for i := range questions {
		questions[i].Groups = []string{string(make([]byte, 380))}
	}
	server.fail(unavailableFault)
	results, err := server.connect(t, Config{}).CheckMany(t.Context(), questions)
	if err != nil || !results[9_999].Allowed || len(server.seen()) != 2 {
		t.Error(err, len(server.seen()))
	}
}

func TestAHealthProbeIsNotTriedAgain(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	server.fail(unavailableFault)
	_, err := client.CheckHealth(t.Context(), "")
	expectError(t, err, ErrServerUnavailable, "scripted")
	if got, err := client.CheckHealth(t.Context(), ""); got != healthpb.HealthCheckResponse_SERVING || err != nil {
		t.Error(got, err)
	}
	got, err := client.CheckHealth(t.Context(), "other")
	if got != healthpb.HealthCheckResponse_SERVICE_UNKNOWN || err != nil {
		t.Error(got, err)
	}
	if tried := len(server.seen()); tried != 3 {
		t.Errorf("%d attempts", tried)
	}
}

func TestTimeLimits(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{Timeout: 100 * time.Millisecond})
	late, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server.fail(fault{err: unavailableFault.err, pushback: "300"})
	if err := calls["Check"](late, client); err != nil {
		t.Error("the deadline of the context replaces the time limit:", err)
	}

	// These calls come last, since they may time out before reaching the server.
	server.fail(fault{hang: true})
	err := calls["Check"](t.Context(), client)
	// The server may detect the deadline first, and report it in other words.
	expectError(t, err, context.DeadlineExceeded, "no response from "+server.address)
	expectError(t, err, ErrUnavailable, "")
	if code := status.Code(err); code != codes.DeadlineExceeded {
		t.Error(code)
	}

	server.fail(fault{hang: true})
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	patient := server.connect(t, Config{})
	expectError(t, calls["Check"](soon, patient), context.DeadlineExceeded, "no response from")
}

func TestRetriesStayWithinTheTimeLimit(t *testing.T) {
	server := startFake(t)
	server.fail(always...)
	client := server.connect(t, Config{
		Timeout: 300 * time.Millisecond, Retry: Retry{5, time.Minute, time.Minute},
	})
	start := time.Now()
	expectError(t, calls["Check"](t.Context(), client), ErrUnavailable, "")
	if took := time.Since(start); took > 40*time.Second { // the first pause is at least 48 s
		t.Error(took)
	}
}

func TestACancelledCall(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	server.fail(fault{hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-server.arrived; cancel() }()
	err := calls["Check"](ctx, client)
	expectError(t, err, context.Canceled, "was cancelled")
	expectError(t, err, ErrUnavailable, "")
	if err := calls["Check"](t.Context(), client); err != nil {
		t.Error(err)
	}
}

func TestClosing(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	server.fail(fault{hang: true})
	go func() { <-server.arrived; client.Close() }()
	expectError(t, calls["Check"](t.Context(), client), ErrClosed, "the client is closed")
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	for _, call := range calls {
		expectError(t, call(t.Context(), client), ErrClosed, "the client is closed")
	}
}

func TestErrors(t *testing.T) {
	refused := fault{err: detailed(codes.Unavailable, "directory down", "RESOLVER_UNAVAILABLE",
		retryAfter(5*time.Second)), pushback: "-1"}
	for _, each := range []struct {
		given  error
		kind   error
		parent error
		want   Error
	}{
		{badQueue, ErrInvalidArgument, ErrRequestRejected, Error{
			Reason: "INVALID_FIELD", Message: "queue: bad", Violations: []Violation{{"queue", "bad"}}}},
		{detailed(codes.NotFound, "no partition", "UNKNOWN_PARTITION"), ErrUnknownPartition, ErrRequestRejected,
			Error{Reason: "UNKNOWN_PARTITION", Message: "no partition"}},
		{detailed(codes.PermissionDenied, "no", "CALLER_NOT_PERMITTED"), ErrNotPermitted, ErrRequestRejected,
			Error{Reason: "CALLER_NOT_PERMITTED", Message: "no"}},
		{detailed(codes.Unauthenticated, "who", "CALLER_UNKNOWN"), ErrNotPermitted, ErrRequestRejected,
			Error{Reason: "CALLER_UNKNOWN", Message: "who"}},
		{refused.err, ErrGroupsUnavailable, ErrUnavailable, Error{
			Reason: "RESOLVER_UNAVAILABLE", Message: "directory down", RetryAfter: 5 * time.Second}},
		{detailed(codes.ResourceExhausted, "busy", "OVERLOADED"), ErrOverloaded, ErrUnavailable,
			Error{Reason: "OVERLOADED", Message: "busy"}},
		{detailed(codes.Internal, "id 7", "INTERNAL"), ErrServer, ErrServer,
			Error{Reason: "INTERNAL", Message: "id 7"}},
		{status.Error(codes.DataLoss, ""), ErrServer, ErrServer, Error{Message: "DataLoss"}},
		{status.Error(codes.Unauthenticated, "of a proxy"), ErrNotPermitted, ErrRequestRejected,
			Error{Message: "of a proxy"}},
	} {
		t.Run(each.kind.Error(), func(t *testing.T) {
			server := startFake(t)
			server.fail(fault{err: each.given, pushback: "-1"})
			decision, err := server.connect(t, Config{}).Check(t.Context(), Check{User: "alice", Queue: "root"})
			var failure *Error
			if !errors.As(err, &failure) {
				t.Fatal(err)
			}
			expectError(t, err, each.kind, each.want.Message)
			expectError(t, err, each.parent, "")
			each.want.Kind, each.want.Code = each.kind, status.Code(each.given)
			if decision != (Decision{}) || !reflect.DeepEqual(*failure, each.want) || status.Code(err) != failure.Code {
				t.Errorf("got %+v, want %+v", *failure, each.want)
			}
		})
	}
}

func TestInvalidArgumentsAreNotSent(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	for field, question := range map[string]Check{
		"user.user must not be empty":             {Queue: "root"},
		"queue must not be empty":                 {User: "alice"},
		`access must be "submit" or "admin"`:      {User: "alice", Queue: "root", Access: "own"},
		"user.groups[1] must not be empty":        {User: "alice", Queue: "root", Groups: []string{"a", ""}},
		"user.no_groups must not be set together": {User: "alice", Queue: "root", Groups: []string{"a"}, NoGroups: true},
		"partition is not valid UTF-8":            {User: "alice", Queue: "root", Partition: "\xff"},
		"user.user must not be empty; queue must": {},
	} {
		_, err := client.Check(t.Context(), question)
		expectError(t, err, ErrInvalidArgument, field)
		_, err = client.Explain(t.Context(), question)
		expectError(t, err, ErrInvalidArgument, field)
		_, err = client.CheckMany(t.Context(), []Check{{User: "alice", Queue: "root"}, question})
		expectError(t, err, ErrInvalidArgument, "checks[1]."+field[:5])
	}
	for fault, question := range map[string]ApplicationCheck{
		"application or spark": {User: "alice", Action: View},
		"action must be":       {User: "alice", Action: "eat", Spark: &queuegatev1.SparkApplication{}},
		"application.queue":    {User: "alice", Action: View, Application: &queuegatev1.Application{Owner: "bob"}},
		`spark.properties["a"] is not`: {User: "alice", Action: View, Spark: &queuegatev1.SparkApplication{
			Properties: map[string]string{"a": "\xff", "b": ""}}},
	} {
		_, err := client.CheckApplication(t.Context(), question)
		expectError(t, err, ErrInvalidArgument, fault)
		_, err = client.CheckApplications(t.Context(), []ApplicationCheck{question})
		expectError(t, err, ErrInvalidArgument, fault)
		_, err = client.ExplainApplication(t.Context(), question)
		expectError(t, err, ErrInvalidArgument, fault)
	}
	_, err := client.ListQueues(t.Context(), QueueListing{Prefix: "\xff"})
	expectError(t, err, ErrInvalidArgument, "user.user must not be empty; prefix is not valid UTF-8")
	_, err = client.Resolve(t.Context(), "", ResolveOptions{})
	expectError(t, err, ErrInvalidArgument, "user must not be empty")
	_, err = client.Invalidate(t.Context(), []string{"alice", ""}, InvalidateOptions{})
	expectError(t, err, ErrInvalidArgument, "users[1] must not be empty")
	_, err = client.InvalidateAll(t.Context(), InvalidateOptions{Partition: "\xff"})
	expectError(t, err, ErrInvalidArgument, "partition")
	_, err = client.GetPolicy(t.Context(), "\xff", "")
	expectError(t, err, ErrInvalidArgument, "partition")
	_, err = client.Validate(t.Context(), "\xff", "")
	expectError(t, err, ErrInvalidArgument, "content")
	_, err = client.CheckHealth(t.Context(), "\xff")
	expectError(t, err, ErrInvalidArgument, "service")
	if sent := server.seen(); len(sent) > 0 {
		t.Error(sent)
	}
}

func TestInvalidateOfNobodyAsksNothing(t *testing.T) {
	server := startFake(t)
	if _, err := server.connect(t, Config{}).Invalidate(t.Context(), nil, InvalidateOptions{}); err != nil || len(server.seen()) > 0 {
		t.Error(err)
	}
}

func TestPages(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	server.always(&queuegatev1.ListQueuesResponse{Queues: []string{"root"}, NextPageToken: "root"})
	_, err := client.ListQueues(t.Context(), QueueListing{User: "alice"})
	expectError(t, err, ErrServer, "the same page token twice")
	if asked := len(server.seen()); asked != 2 {
		t.Errorf("%d requests", asked)
	}
}

func TestQueuesWithTheirEntries(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	via := &queuegatev1.AccessGrant{
		Queue: "root", Acl: queuegatev1.AccessType_ACCESS_TYPE_SUBMIT,
		Kind: queuegatev1.SubjectKind_SUBJECT_KIND_EVERYONE, Name: "*",
	}
	server.always(&queuegatev1.ListQueuesResponse{Queues: []string{"root"}, Via: []*queuegatev1.AccessGrant{via}})
	usable, err := client.ExplainQueues(t.Context(), QueueListing{User: "alice"})
	if err != nil || len(usable) != 1 || usable[0].Queue != "root" || !proto.Equal(usable[0].Via, via) {
		t.Error(usable, err)
	}
	server.always(&queuegatev1.ListQueuesResponse{Queues: []string{"root"}})
	_, err = client.ExplainQueues(t.Context(), QueueListing{User: "alice"})
	expectError(t, err, ErrServer, "1 queues with 0 entries: it may be older")
	_, err = client.ExplainQueues(t.Context(), QueueListing{})
	expectError(t, err, ErrInvalidArgument, "user.user")
}

func TestPagesOfUsers(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	want := &queuegatev1.ListUsersResponse{
		Users: []*queuegatev1.ListedUser{{
			User:      "alice",
			Confirmed: true,
			Via: []*queuegatev1.AccessGrant{{
				Queue: "root", Acl: queuegatev1.AccessType_ACCESS_TYPE_ADMIN,
				Kind: queuegatev1.SubjectKind_SUBJECT_KIND_GROUP, Name: "staff", Nested: []string{"devs"},
			}},
		}},
		Complete:      true,
		NextPageToken: "more",
	}
	server.always(want)
	pages := 0
	for page, err := range client.ListUsers(t.Context(), UserListing{Queue: "root", PageSize: 1}) {
		if pages++; pages > 2 {
			expectError(t, err, ErrServer, "the same page token twice")
			continue
		}
		if err != nil || !proto.Equal(page, want) {
			t.Errorf("%+v, %v", page, err)
		}
	}
	if asked := len(server.seen()); asked != 2 || pages != 3 {
		t.Errorf("%d requests, %d pages", asked, pages)
	}
}

func TestListUsersRefusesFaultsAtOnce(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	for _, listing := range []UserListing{{}, {Queue: "root", Access: "x"}, {Queue: "root", PageSize: 1_001}} {
		for _, err := range client.ListUsers(t.Context(), listing) {
			if !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("%+v: %v", listing, err)
			}
		}
	}
	if len(server.seen()) > 0 {
		t.Error(server.seen())
	}
}

func TestAValueOfANewerServer(t *testing.T) {
	server := startFake(t)
	server.always(&queuegatev1.CheckQueueAccessResponse{Reason: 99})
	decision, err := server.connect(t, Config{}).Check(t.Context(), Check{User: "alice", Queue: "root"})
	if decision != (Decision{Reason: ReasonUnspecified}) || err != nil {
		t.Error(decision, err)
	}
}

func TestGoroutinesShareAClient(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	done := make(chan error)
	for range 16 {
		go func() {
			for range 50 {
				if err := calls["Check"](t.Context(), client); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 16 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if asked := len(server.seen()); asked != 16*50 {
		t.Errorf("%d requests", asked)
	}
}

func TestResultsOfSeveralInvalidations(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	stale := []*queuegatev1.StaleGate{{Name: "a gate", RemainingMillis: 7}}
	server.always(&queuegatev1.InvalidateUserGroupsResponse{
		Dropped: 3, WaitedOut: []string{"a gate"}, Cursor: &queuegatev1.Cursor{Epoch: []byte("epoch"), Sequence: 7},
		StaleGates: stale,
	})
	users := repeated("alice", maxUsers+1)
	result, err := client.Invalidate(t.Context(), users, InvalidateOptions{Wait: true})
	want := &queuegatev1.InvalidateUserGroupsResponse{
		Dropped: 6, Cursor: &queuegatev1.Cursor{Epoch: []byte("epoch"), Sequence: 7}, WaitedOut: []string{"a gate"},
		StaleGates: stale,
	}
	if !proto.Equal(result, want) || err != nil {
		t.Errorf("%+v, %v", result, err)
	}
	for _, sent := range server.seen() {
		if request := sent.(*queuegatev1.InvalidateUserGroupsRequest); !request.Wait || len(request.Users) > maxUsers {
			t.Error(request)
		}
	}
	server.always(&queuegatev1.ReloadPolicyResponse{})
	reloaded, err := client.Reload(t.Context(), ReloadOptions{Wait: true})
	if reloaded.GetCursor() != nil || err != nil {
		t.Errorf("an older server has no cursor: %+v, %v", reloaded, err)
	}
}

func TestTheReplicasOfAFleet(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	want := &queuegatev1.GetFleetResponse{
		Replicas: []*queuegatev1.FleetReplica{{
			Name: "a", State: queuegatev1.ReplicaState_REPLICA_STATE_SILENT, Lag: 3, SilentSeconds: 1.5,
		}},
		Connected: true,
		Problems:  []string{"a is away"},
	}
	server.always(want)
	fleet, err := client.GetFleet(t.Context())
	if !proto.Equal(fleet, want) || err != nil {
		t.Errorf("%+v, %v", fleet, err)
	}
}

func TestChecksThatDemandAChange(t *testing.T) {
	server := startFake(t)
	server.columns = true
	client := server.connect(t, Config{Retry: Retry{Attempts: 1}})
	question := Check{User: "alice", Queue: "root", AtLeast: &queuegatev1.Cursor{
		Epoch: []byte("epoch"), Sequence: 7,
	}}
	if _, err := client.Check(t.Context(), question); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CheckMany(t.Context(), repeated(question, 1_000)); err != nil {
		t.Fatal(err)
	}
	sent := server.seen()
	single := sent[0].(*queuegatev1.CheckQueueAccessRequest)
	if single.GetAtLeast().GetSequence() != 7 || string(single.GetAtLeast().GetEpoch()) != "epoch" {
		t.Error(single)
	}
	for _, each := range sent[1].(*queuegatev1.BatchCheckQueueAccessRequest).GetChecks() {
		if each.GetAtLeast().GetSequence() != 7 {
			t.Fatal(each)
		}
	}
	_, err := client.Explain(t.Context(), question)
	expectError(t, err, ErrInvalidArgument, "at_least is only for Check")
	server.fail(fault{err: detailed(codes.Unavailable, "unknown change", "NOT_CAUGHT_UP")})
	_, err = client.Check(t.Context(), question)
	expectError(t, err, ErrNotCaughtUp, "unknown change")
	expectError(t, err, ErrServerUnavailable, "")
}

func TestKindsOfErrorsNameThePackage(t *testing.T) {
	for _, kind := range []error{
		ErrRequestRejected, ErrInvalidArgument, ErrUnknownPartition, ErrNotPermitted, ErrMessageTooLarge,
		ErrUnavailable, ErrServerUnavailable, ErrNotCaughtUp, ErrGroupsUnavailable, ErrOverloaded, ErrClosed,
		ErrServer, errDeadlineExceeded, errCanceled, ErrInvalidUserInfo,
	} {
		if !strings.HasPrefix(kind.Error(), "queuegate: ") {
			t.Error(kind)
		}
	}
}

func TestDialOptionsTakePrecedence(t *testing.T) {
	server := startFake(t)
	var seen []string
	client := server.connect(t, Config{DialOptions: []grpc.DialOption{
		grpc.WithUserAgent("shim/1"),
		grpc.WithUnaryInterceptor(func(
			ctx context.Context, method string, request, response any, connection *grpc.ClientConn,
			invoke grpc.UnaryInvoker, options ...grpc.CallOption,
		) error {
			seen = append(seen, method)
			return invoke(ctx, method, request, response, connection, options...)
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(20)),
	}})
	if _, err := client.Check(t.Context(), Check{User: "alice", Queue: "root"}); err != nil {
		t.Error(err)
	}
	_, err := client.Check(t.Context(), Check{User: strings.Repeat("u", 20), Queue: "root"})
	expectError(t, err, ErrMessageTooLarge, "too large")
	if want := queuegatev1.AccessService_CheckQueueAccess_FullMethodName; len(seen) != 2 || seen[0] != want {
		t.Error(seen)
	}
}
