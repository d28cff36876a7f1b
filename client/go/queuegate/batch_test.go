package queuegate

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// manyUsers returns checks of distinct users.
func manyUsers(count int) []Check {
	questions := make([]Check, count)
	for i := range questions {
		questions[i] = Check{User: fmt.Sprintf("user%d", i), Queue: "root.a"}
	}
	return questions
}

func TestCheckManyKeepsTheOrder(t *testing.T) {
	for _, columns := range []bool{false, true} {
		t.Run(fmt.Sprintf("columns %v", columns), func(t *testing.T) {
			server := startFake(t)
			server.columns = columns
			var questions []Check
			for i := range 200 {
				user := []string{"alice", "denied1", "faulty1", "faulty2", "bob"}[i%5]
				questions = append(questions, Check{User: user, Queue: fmt.Sprintf("root.q%d", i%7)})
			}
			results, err := server.connect(t, Config{}).CheckMany(t.Context(), questions)
			if err != nil {
				t.Fatal(err)
			}
			for i, result := range results {
				switch asked := questions[i]; asked.User {
				case "alice", "bob":
					if !result.Allowed || result.Err != nil || result.MatchedSubject != asked.User ||
						result.MatchedQueue != asked.Queue {
						t.Errorf("%d: %+v", i, result)
					}
				case "denied1":
					if result.Allowed || result.Err != nil || result.Reason != ReasonNoMatch {
						t.Errorf("%d: %+v", i, result)
					}
				default:
					expectError(t, result.Err, ErrInvalidArgument, "queue: bad")
					if result.Allowed {
						t.Errorf("%d: %+v", i, result)
					}
				}
			}
		})
	}
}

func TestCheckManyOfNothingAsksNothing(t *testing.T) {
	server := startFake(t)
	results, err := server.connect(t, Config{}).CheckMany(t.Context(), nil)
	if len(results) > 0 || err != nil || len(server.seen()) > 0 {
		t.Error(results, err)
	}
}

func TestBatchesAreSplit(t *testing.T) {
	long := Check{User: "alice", Queue: "root", Groups: repeated(strings.Repeat("g", 255), 4_000)}
	for _, each := range []struct {
		questions []Check
		sizes     []int
	}{
		{manyUsers(25_001), []int{10_000, 10_000, 5_001}},
		{repeated(long, 9), []int{4, 4, 1}},
	} {
		server := startFake(t)
		server.columns = true
		results, err := server.connect(t, Config{}).CheckMany(t.Context(), each.questions)
		if err != nil {
			t.Fatal(err)
		}
		for i, result := range results {
			if result.MatchedSubject != each.questions[i].User {
				t.Fatalf("%d: %+v", i, result)
			}
		}
		var sizes []int
		for _, request := range server.seen() {
			batch := request.(*queuegatev1.BatchCheckQueueAccessRequest)
			if proto.Size(batch) > maxRequestBytes {
				t.Error(proto.Size(batch))
			}
			sizes = append(sizes, len(batch.Checks))
		}
		if fmt.Sprint(sizes) != fmt.Sprint(each.sizes) {
			t.Errorf("got %v, want %v", sizes, each.sizes)
		}
	}
}

func TestAQuestionThatIsTooLarge(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	huge := Check{User: "alice", Queue: strings.Repeat("q", maxRequestBytes)}
	_, err := client.CheckMany(t.Context(), []Check{{User: "alice", Queue: "root"}, huge})
	expectError(t, err, ErrMessageTooLarge, "checks[1] exceeds the size limit")
	_, err = client.Check(t.Context(), huge)
	expectError(t, err, ErrMessageTooLarge, "the request is too large for "+server.address)
	expectError(t, err, ErrRequestRejected, "")
}

func TestAResponseThatIsTooLarge(t *testing.T) {
	server := startFake(t, grpc.MaxSendMsgSize(maxReceiveBytes<<1))
	server.always(&queuegatev1.CheckQueueAccessResponse{MatchedQueue: strings.Repeat("q", maxReceiveBytes)})
	_, err := server.connect(t, Config{}).Check(t.Context(), Check{User: "alice", Queue: "root"})
	expectError(t, err, ErrMessageTooLarge, "the response of "+server.address+" is too large")
}

func TestColumnsAreUsedWhereTheySave(t *testing.T) {
	same := repeated(Check{User: "alice", Queue: "root.a"}, 64)
	other := Check{User: "alice", Queue: "root.a", Access: Admin}
	for name, each := range map[string]struct {
		questions []Check
		requests  string
	}{
		"few":               {same[:63], "batch 63"},
		"many":              {same, "columns 64"},
		"many and another":  {append(same[:64:64], other), "batch 65"},
		"more and another":  {append(repeated(same[0], 512), other), "columns 512, batch 1"},
		"names that differ": {manyUsers(64), "batch 64"},
		"a real user":       {repeated(Check{User: "a", Queue: "root", RealUser: "hive"}, 64), "batch 64"},
		"submit by default": {append(repeated(Check{User: "alice", Queue: "root.a", Access: Submit}, 32), same[:32]...), "columns 64"},
		"too many for one":  {repeated(same[0], 20_001), "columns 10001, columns 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			server := startFake(t)
			server.columns = true
			if _, err := server.connect(t, Config{}).CheckMany(t.Context(), each.questions); err != nil {
				t.Fatal(err)
			}
			var requests []string
			for _, request := range server.seen() {
				switch request := request.(type) {
				case *queuegatev1.BatchCheckQueueAccessRequest:
					requests = append(requests, fmt.Sprintf("batch %d", len(request.Checks)))
				case *queuegatev1.CheckQueueAccessColumnsRequest:
					requests = append(requests, fmt.Sprintf("columns %d", len(request.UserIndexes)))
				}
			}
			if got := strings.Join(requests, ", "); got != each.requests {
				t.Errorf("got %s, want %s", got, each.requests)
			}
		})
	}
}

func TestColumnsKeepIdentitiesApart(t *testing.T) {
	server := startFake(t)
	server.columns = true
	groups := [][]string{{"a", "b"}, {"ab"}, {"b", "a"}, {"a\x01b"}, {"a"}, {"a", "b", "b"}}
	var questions []Check
	for i := range 120 {
		questions = append(questions, Check{User: "alice", Queue: "root", Groups: groups[i%len(groups)]})
	}
	results, err := server.connect(t, Config{}).CheckMany(t.Context(), questions)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range results {
		if want := strings.Join(groups[i%len(groups)], "+"); result.MatchedSubject != want {
			t.Errorf("%d: got %q, want %q", i, result.MatchedSubject, want)
		}
	}
	if asked := server.seen()[0].(*queuegatev1.CheckQueueAccessColumnsRequest); len(asked.Users) != len(groups) {
		t.Error(asked.Users)
	}
}

func TestColumnsTellNoGroupsFromGroupsToLookUp(t *testing.T) {
	server := startFake(t)
	server.columns = true
	questions := make([]Check, 120)
	for i := range questions {
		questions[i] = Check{User: "alice", Queue: "root", NoGroups: i%2 == 0}
		if i%3 == 0 {
			questions[i].Groups = []string{} // equivalent to nil
		}
	}
	if _, err := server.connect(t, Config{}).CheckMany(t.Context(), questions); err != nil {
		t.Fatal(err)
	}
	asked := server.seen()[0].(*queuegatev1.CheckQueueAccessColumnsRequest)
	if len(asked.Users) != 2 || !asked.Users[0].NoGroups || asked.Users[1].NoGroups {
		t.Error(asked.Users)
	}
}

func TestAnOlderServerIsAskedInBatches(t *testing.T) {
	server := startFake(t)
	client := server.connect(t, Config{})
	for range 2 {
		results, err := client.CheckMany(t.Context(), repeated(Check{User: "alice", Queue: "root"}, 100))
		if err != nil || !results[99].Allowed {
			t.Error(results, err)
		}
	}
	if asked := len(server.seen()); asked != 3 { // columns and a batch, then a batch
		t.Errorf("%d requests", asked)
	}
}

func TestResponsesThatBreakTheContract(t *testing.T) {
	allowed := &queuegatev1.CheckResult{Outcome: &queuegatev1.CheckResult_Decision{
		Decision: &queuegatev1.CheckQueueAccessResponse{Allowed: true}}}
	failed := &queuegatev1.CheckResult{Outcome: &queuegatev1.CheckResult_Error{Error: itemError(badQueue)}}
	same := func(index uint32) *queuegatev1.CheckResult {
		return &queuegatev1.CheckResult{Outcome: &queuegatev1.CheckResult_SameErrorAs{SameErrorAs: index}}
	}
	two := manyUsers(2)
	columns := repeated(Check{User: "alice", Queue: "root"}, 64)
	batch := func(results ...*queuegatev1.CheckResult) any {
		return &queuegatev1.BatchCheckQueueAccessResponse{Results: results}
	}
	granted := []*queuegatev1.CheckQueueAccessResponse{{Allowed: true}}
	contradiction := &queuegatev1.CheckQueueAccessResponse{
		Allowed: true, Reason: queuegatev1.Reason_REASON_UNKNOWN_QUEUE}
	contradictory := &queuegatev1.CheckResult{
		Outcome: &queuegatev1.CheckResult_Decision{Decision: contradiction}}
	for name, each := range map[string]struct {
		questions []Check
		answer    any
		whole     string // the call's error
		second    string // or the second check's error
	}{
		"no results":    {two, batch(), "0 results for 2 checks", ""},
		"one result":    {two, batch(allowed), "1 results for 2 checks", ""},
		"three results": {two, batch(allowed, allowed, allowed), "3 results for 2 checks", ""},
		"no outcome":    {two, batch(failed, &queuegatev1.CheckResult{}), "", "omitted"},
		"contradiction": {two, batch(failed, contradictory), "", "allowed, with the reason unknown_queue"},
		"contradiction in columns": {columns, &queuegatev1.CheckQueueAccessColumnsResponse{
			Decisions:       []*queuegatev1.CheckQueueAccessResponse{contradiction},
			DecisionIndexes: repeated(uint32(1), 64),
		}, "", "allowed, with the reason unknown_queue"},
		"same as yes":   {two, batch(allowed, same(0)), "", "omitted"},
		"same as later": {two, batch(allowed, same(7)), "", "omitted"},
		"same as none":  {two, batch(same(0), same(1)), "", "omitted"},
		"same as first": {two, batch(failed, same(0)), "", "queue: bad"},
		"no indexes": {columns, &queuegatev1.CheckQueueAccessColumnsResponse{Decisions: granted},
			"0 results for 64 checks", ""},
		"no decision": {columns, &queuegatev1.CheckQueueAccessColumnsResponse{
			DecisionIndexes: repeated(uint32(1), 64)}, "does not match", ""},
		"zeros": {columns, &queuegatev1.CheckQueueAccessColumnsResponse{
			DecisionIndexes: make([]uint32, 64), Decisions: granted}, "", "omitted"},
		"an error elsewhere": {columns, &queuegatev1.CheckQueueAccessColumnsResponse{
			DecisionIndexes: make([]uint32, 64),
			Errors:          []*queuegatev1.ColumnsError{{Questions: []uint32{64}}}}, "does not match", ""},
		"an error and a yes": {columns, &queuegatev1.CheckQueueAccessColumnsResponse{
			DecisionIndexes: repeated(uint32(1), 64), Decisions: granted,
			Errors: []*queuegatev1.ColumnsError{{Questions: []uint32{1}}}}, "", "OK"},
	} {
		t.Run(name, func(t *testing.T) {
			server := startFake(t)
			server.always(each.answer)
			results, err := server.connect(t, Config{}).CheckMany(t.Context(), each.questions)
			if each.whole != "" {
				expectError(t, err, ErrServer, each.whole)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if results[1].Allowed || results[1].Err == nil || !strings.Contains(results[1].Err.Error(), each.second) {
				t.Errorf("%+v", results[1])
			}
		})
	}
}
