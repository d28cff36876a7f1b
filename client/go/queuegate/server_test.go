package queuegate

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// serverVariable contains the path of the program queuegate-server, for tests against a real server.
const serverVariable = "TEST_QUEUEGATE_SERVER"

// allRoles grants local callers all roles, including those that they lack by default.
const allRoles = "callers.loopback.roles=check,read,admin"

// serve starts a server, waits until it serves, and returns its address and a function that stops it.
func serve(t *testing.T, listen string, arguments ...string) (string, func()) {
	t.Helper()
	program := os.Getenv(serverVariable)
	if program == "" {
		t.Skip("set " + serverVariable + " to the path of queuegate-server, to run this test against it")
	}
	arguments = append([]string{"serve"}, arguments...)
	if listen != "" {
		arguments = append(arguments, "--listen", listen)
	}
	command := exec.Command(program, arguments...)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	command.Stderr = &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			command.Process.Signal(syscall.SIGTERM)
			command.Wait()
		}
	}
	t.Cleanup(stop)
	line, err := bufio.NewReader(output).ReadString('\n')
	_, address, isServing := strings.Cut(line, " on ")
	if err != nil || !isServing {
		stop()
		t.Fatalf("no start: %q, %v\n%s", line, err, log.String())
	}
	return strings.TrimSpace(address), stop
}

// patient returns a client with a time limit that is not reached even on a busy machine.
func patient(t *testing.T, address string) *Client {
	return connect(t, Config{Address: address, Timeout: time.Minute})
}

func TestQueueVectors(t *testing.T) {
	var vectors struct {
		Documents []struct {
			ID, YAML  string
			Questions []struct {
				ID, Partition, Queue, User, Access, Error string
				Groups                                    []string
				Allowed                                   bool
			}
		}
	}
	readVectors(t, "queue_vectors.json", &vectors)
	policy := written(t, vectors.Documents[0].YAML)
	address, _ := serve(t, "127.0.0.1:0", "--policy", policy, "--set", allRoles)
	client := patient(t, address)
	for _, document := range vectors.Documents {
		t.Run(document.ID, func(t *testing.T) {
			if err := os.WriteFile(policy, []byte(document.YAML), 0o600); err != nil {
				t.Fatal(err)
			}
			if reloaded, err := client.Reload(t.Context(), ReloadOptions{}); !reloaded.GetSucceeded() || err != nil {
				t.Fatal(reloaded, err)
			}
			for _, asked := range document.Questions {
				question := Check{
					User: asked.User, Queue: asked.Queue, Partition: asked.Partition,
					Access: Access(asked.Access), Groups: asked.Groups,
				}
				decision, err := client.Check(t.Context(), question)
				// The deviations are documented in DEVIATIONS.md.
				switch {
				case asked.Error == "partition_not_found":
					expectError(t, err, ErrUnknownPartition, "partition")
				case asked.User == "" || asked.User == "*" && len(asked.Groups) > 0:
					expectError(t, err, ErrInvalidArgument, "user.user")
				case err != nil:
					t.Errorf("%s: %v", asked.ID, err)
				case len(asked.Groups) == 0 && decision.Reason == ReasonGroup:
					// A request without groups resolves them, to the user's own name.
					if decision.MatchedSubject != asked.User {
						t.Errorf("%s: %+v", asked.ID, decision)
					}
				default:
					recovery := strings.HasPrefix(asked.Queue, "root.@recovery@.") && asked.Access == "submit"
					if decision.Allowed != (asked.Allowed && !recovery) {
						t.Errorf("%s: %+v", asked.ID, decision)
					}
				}
				if asked.User == "" {
					continue
				}
				many, failed := client.CheckMany(t.Context(), repeated(question, 64))
				if failed != nil {
					t.Fatal(failed)
				}
				if many[63].Decision != decision || !errors.Is(many[63].Err, errors.Unwrap(err)) {
					t.Errorf("%s: %+v", asked.ID, many[63])
				}
			}
		})
	}
}

func TestEveryCallOfAServer(t *testing.T) {
	policy := inRepository(t, "examples/queues.yaml")
	settings := written(t, fmt.Sprintf(`
listen: [127.0.0.1:0]
callers: {loopback: {roles: [check, read, admin]}}
policies:
  - path: %s
  - path: %s
    partition: hadoop
    yarn_site: %s
`, absolute(t, policy), absolute(t, inRepository(t, "examples/fair-scheduler.xml")),
		absolute(t, inRepository(t, "examples/yarn-site.xml"))))
	address, _ := serve(t, "", "--config", settings)
	client := patient(t, address)
	ctx := t.Context()

	sue := Check{User: "sue", Queue: "root.analytics.reports"}
	decision, err := client.Check(ctx, sue)
	want := Decision{
		Allowed: true, Reason: ReasonUser, MatchedQueue: sue.Queue, MatchedSubject: "sue", PolicyRevision: 1,
	}
	if decision != want || err != nil {
		t.Errorf("%+v, %v", decision, err)
	}
	decision, err = client.Check(ctx, Check{User: "john", Queue: "root.analytics.reports.new", Groups: []string{"g"}})
	want = Decision{Reason: ReasonNoMatch, EvaluatedQueue: sue.Queue, PolicyRevision: 1}
	if decision != want || err != nil {
		t.Errorf("%+v, %v", decision, err)
	}
	explained, err := client.Explain(ctx, Check{User: "john", Queue: "root.analytics.reports.new", Groups: []string{"g"}})
	if err != nil || explained.Decision.Allowed || explained.Decision.Reason != queuegatev1.Reason_REASON_NO_MATCH ||
		explained.EvaluatedQueue != "root.analytics.reports" ||
		explained.Groups.Origin != queuegatev1.GroupsOrigin_GROUPS_ORIGIN_REQUEST ||
		explained.Steps[0].Outcome != queuegatev1.StepOutcome_STEP_OUTCOME_NO_MATCH ||
		explained.Steps[0].Acl != queuegatev1.AccessType_ACCESS_TYPE_SUBMIT || explained.Steps[0].AclText != "sue" {
		t.Errorf("%+v, %v", explained, err)
	}
	queues, err := client.ListQueues(ctx, QueueListing{User: "sue", Prefix: "root.analytics"})
	if !slices.Equal(queues, []string{"root.analytics.reports"}) || err != nil {
		t.Error(queues, err)
	}
	usable, err := client.ExplainQueues(ctx, QueueListing{User: "sue", Prefix: "root.analytics"})
	via := &queuegatev1.AccessGrant{
		Queue: "root.analytics.reports", Acl: queuegatev1.AccessType_ACCESS_TYPE_SUBMIT,
		Kind: queuegatev1.SubjectKind_SUBJECT_KIND_USER, Name: "sue",
	}
	if err != nil || len(usable) != 1 || usable[0].Queue != via.Queue || !proto.Equal(usable[0].Via, via) {
		t.Errorf("%+v, %v", usable, err)
	}
	resolution, err := client.Resolve(ctx, "sue", ResolveOptions{BypassCache: true})
	if err != nil || resolution.Outcome != queuegatev1.ResolveOutcome_RESOLVE_OUTCOME_RESOLVED ||
		!slices.Equal(resolution.UserGroup.Groups, []string{"sue"}) || resolution.Resolver != "none" {
		t.Errorf("%+v, %v", resolution, err)
	}
	info, err := client.GetPolicy(ctx, "", "root.analytics")
	if err != nil || info.Revision != 1 || info.LoadedAt == nil || info.ReloadFailedAt != nil ||
		!slices.Equal(info.Partitions, []string{"default", "gpu", "hadoop"}) || info.Queues[0].Path != "root.analytics" {
		t.Errorf("%+v, %v", info, err)
	}
	reloaded, err := client.Reload(ctx, ReloadOptions{})
	if err != nil || !reloaded.Succeeded || reloaded.Revision != 1 {
		t.Errorf("%+v, %v", reloaded, err)
	}
	validated, err := client.Validate(ctx, "partitions: [{name: default, queues: 7}]", "")
	if err != nil || validated.Valid || validated.Diagnostics[0].Severity != queuegatev1.Severity_SEVERITY_ERROR || validated.Diagnostics[0].Line != 1 {
		t.Errorf("%+v, %v", validated, err)
	}
	if _, err := client.Invalidate(ctx, []string{"sue"}, InvalidateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.InvalidateAll(ctx, InvalidateOptions{Partition: "default"}); err != nil {
		t.Error(err)
	}
	health, err := client.CheckHealth(ctx, "queuegate.v1.AccessService")
	if health != healthpb.HealthCheckResponse_SERVING || err != nil {
		t.Error(health, err)
	}
	logs := ApplicationCheck{
		User: "Jane", Action: ViewLogs, Partition: "hadoop",
		Application: &queuegatev1.Application{Queue: "Test", Owner: "John", ViewAcl: "Jane"},
	}
	kill := logs
	kill.Action = Modify
	spark := ApplicationCheck{User: "owner", Action: Modify, Spark: &queuegatev1.SparkApplication{
		Properties: map[string]string{"spark.acls.enable": "true"}, SparkUser: "owner"}}
	decision, err = client.CheckApplication(ctx, logs)
	if !decision.Allowed || decision.Reason != ReasonUser || err != nil {
		t.Error(decision, err)
	}
	missing := logs
	missing.Application = &queuegatev1.Application{Queue: "root.none", Owner: "John", ViewAcl: "Jane"}
	decision, err = client.CheckApplication(ctx, missing)
	if !decision.Allowed || decision.EvaluatedQueue != "root" || err != nil {
		t.Error(decision, err)
	}
	results, err := client.CheckApplications(ctx, []ApplicationCheck{logs, kill, spark})
	if err != nil || !results[0].Allowed || results[1].Allowed || results[1].Err != nil || !results[2].Allowed {
		t.Errorf("%+v, %v", results, err)
	}
	application, err := client.ExplainApplication(ctx, logs)
	if err != nil || !application.Decision.Allowed || application.Decision.Reason != queuegatev1.Reason_REASON_USER ||
		application.Steps[len(application.Steps)-1].List != queuegatev1.ApplicationList_APPLICATION_LIST_VIEW {
		t.Errorf("%+v, %v", application, err)
	}
	_, err = client.Check(ctx, Check{User: "sue", Queue: "root", Partition: "tpu"})
	expectError(t, err, ErrUnknownPartition, "hadoop")
	_, err = client.Check(ctx, Check{User: "sue", Queue: "root. "})
	var rejected *Error
	if !errors.As(err, &rejected) || rejected.Reason != "INVALID_FIELD" || rejected.Violations[0].Field != "queue" {
		t.Error(err)
	}
}

func absolute(t *testing.T, file string) string {
	t.Helper()
	full, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	return full
}

func TestCallersOfAServer(t *testing.T) {
	folder := absolute(t, inRepository(t, "tests/contract/tls"))
	file := func(name string) string { return filepath.Join(folder, name) }
	token := "qg_" + strings.Repeat("d", 43)
	settings := written(t, fmt.Sprintf(`
listen:
  - address: 127.0.0.1:0
    tls: {certificate_file: %s, key_file: %s, client_ca_file: %s}
policy: {path: %s}
callers:
  certificates: {"dns:client.test": {roles: [check]}}
  token_file: %s
  tokens: {dashboard: {roles: [read]}}
`, file("server.pem"), file("server.key"), file("ca.pem"), absolute(t, inRepository(t, "examples/queues.yaml")),
		written(t, fmt.Sprintf("dashboard:%x\n", sha256.Sum256([]byte(token))))))
	address, _ := serve(t, "", "--config", settings)
	known := TLS{file("ca.pem"), file("client.pem"), file("client.key"), ""}
	asking := func(tls *TLS, tokenFile string) *Client {
		return connect(t, Config{Address: address, TLS: tls, TokenFile: tokenFile, Timeout: time.Minute})
	}
	sue := Check{User: "sue", Queue: "root.analytics.reports"}

	scheduler := asking(&known, "")
	if decision, err := scheduler.Check(t.Context(), sue); !decision.Allowed || err != nil {
		t.Error(decision, err)
	}
	_, err := scheduler.Explain(t.Context(), sue)
	expectError(t, err, ErrNotPermitted, "read")
	if code := status.Code(err); code != codes.PermissionDenied {
		t.Error(code)
	}
	dashboard := asking(&known, written(t, token))
	if _, err := dashboard.Explain(t.Context(), sue); err != nil {
		t.Error(err)
	}
	_, err = dashboard.Check(t.Context(), sue)
	expectError(t, err, ErrNotPermitted, "check")
	_, err = asking(&known, written(t, "wrong")).Check(t.Context(), sue)
	expectError(t, err, ErrNotPermitted, "")
	if code := status.Code(err); code != codes.Unauthenticated {
		t.Error(code)
	}
	_, err = asking(&TLS{CAFile: known.CAFile}, "").Check(t.Context(), sue)
	expectError(t, err, ErrServerUnavailable, "client certificate")
	_, err = asking(nil, "").Check(t.Context(), sue)
	expectError(t, err, ErrServerUnavailable, "if it requires TLS, set")
}

func TestAServerOnAUnixSocket(t *testing.T) {
	socket := "unix:" + filepath.Join(t.TempDir(), "q.sock")
	address, _ := serve(t, socket, "--policy", inRepository(t, "examples/queues.yaml"))
	decision, err := patient(t, address).Check(t.Context(), Check{User: "sue", Queue: "root.sandbox"})
	if address != socket || !decision.Allowed || err != nil {
		t.Error(address, decision, err)
	}
}

func TestAServerThatRefusesTooMuch(t *testing.T) {
	address, _ := serve(t, "127.0.0.1:0", "--policy", inRepository(t, "examples/queues.yaml"),
		"--set", "limits.caller_rate=0.01", "--set", "limits.caller_burst=1")
	client := patient(t, address)
	sue := Check{User: "sue", Queue: "root.sandbox"}
	if decision, err := client.Check(t.Context(), sue); !decision.Allowed || err != nil {
		t.Fatal(decision, err)
	}
	_, err := client.Check(t.Context(), sue)
	var refused *Error
	if !errors.As(err, &refused) || !errors.Is(err, ErrOverloaded) || refused.Reason != "RATE_LIMITED" ||
		refused.RetryAfter <= 0 {
		t.Errorf("%+v", err)
	}
}

// A server validates one text at a time, while 15 others may wait.
func TestAnOverloadedServer(t *testing.T) {
	address, _ := serve(t, "127.0.0.1:0", "--policy", inRepository(t, "examples/queues.yaml"))
	text := "partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:\n"
	for i := range 2_000 {
		text += fmt.Sprintf("          - name: q%d\n", i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ends := make(chan error)
	for range 4 { // a connection supports 16 concurrent calls
		client := connect(t, Config{Address: address, Retry: Retry{Attempts: 1}})
		for range 12 {
			go func() {
				_, err := client.Validate(ctx, text, "")
				ends <- err
			}()
		}
	}
	var overloaded, valid int
	for range 48 {
		var failed *Error
		switch err := <-ends; {
		case err == nil:
			valid++
		case errors.Is(err, ErrOverloaded) && errors.As(err, &failed) && failed.Reason == "OVERLOADED":
			overloaded++
		case !errors.Is(err, context.Canceled):
			t.Error(err)
		}
		if valid > 0 && overloaded > 0 {
			cancel() // cancel the others to make room
		}
	}
	if valid == 0 || overloaded == 0 {
		t.Error(valid, overloaded)
	}
}

func TestAServerThatEndsAndReturns(t *testing.T) {
	policy := inRepository(t, "examples/queues.yaml")
	address, stop := serve(t, "127.0.0.1:0", "--policy", policy, "--set", "drain.delay=200ms")
	client := patient(t, address)
	sue := Check{User: "sue", Queue: "root.sandbox"}
	answers := make(chan error)
	ended, quit := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(answers)
		for {
			decision, err := client.Check(t.Context(), sue)
			if err == nil && !decision.Allowed {
				err = fmt.Errorf("denied: %+v", decision)
			}
			select {
			case answers <- err:
			case <-quit:
				return
			}
		}
	}()
	if err := <-answers; err != nil {
		t.Fatal(err)
	}
	go func() { stop(); close(ended) }()
	for gone := false; !gone; {
		select {
		case err := <-answers: // each is nil or the error of a failed call
			if err != nil {
				expectError(t, err, ErrServerUnavailable, address)
			}
		case <-ended:
			gone = true
		}
	}
	<-answers // it may have been in progress
	expectError(t, <-answers, ErrServerUnavailable, "no server at "+address)
	serve(t, address, "--policy", policy)
	for end := time.Now().Add(time.Minute); ; {
		err := <-answers
		if err == nil {
			break
		}
		expectError(t, err, ErrServerUnavailable, address)
		if time.Now().After(end) {
			t.Fatal("not connected again")
		}
	}
	close(quit)
	for range answers {
		t.Log("the last answer")
	}
}
