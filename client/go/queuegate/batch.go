package queuegate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const (
	maxBatch        = 10_000
	maxRequestBytes = 4 << 20 // gRPC's default limit for servers
	itemOverhead    = 5       // the maximum size of the tag and length before a check

	// With fewer checks, columns save nothing.
	minColumnQuestions = 64
	// The minimum if other checks need a batch, since a second request costs as much as 400 checks.
	minMixedColumnQuestions = 512
	// Keeps the response below gRPC's size limit as well.
	maxColumnQuestions = 20_000
	maxColumnNames     = 10_000
)

// A Result is a decision or an error. An error never grants access, but is not a denial either.
type Result struct {
	Decision
	// Err is the error that a single call for this check would have returned.
	Err error
}

var omitted = Result{Err: contractViolated("the server omitted a result")}

// CheckMany runs many checks at once, and returns the results in the order of the checks.
//
// A request contains up to 4 MiB: 10 000 checks, or 20 000 that share a partition and an access and
// repeat users and queues. If several requests are needed, each is evaluated under a single policy
// revision, and if any of them fails, there are no results. Nothing is sent if a check is invalid,
// for example because its user is empty.
func (c *Client) CheckMany(ctx context.Context, questions []Check) ([]Result, error) {
	if err := validateAll(questions, (*Check).faults); err != nil {
		return nil, err
	}
	ctx, cancel := limited(ctx, c.plan.timeout)
	defer cancel()
	results := make([]Result, len(questions))
	rest, err := c.checkColumns(ctx, questions, results)
	if err != nil {
		return nil, err
	}
	check := func(batch []*queuegatev1.CheckQueueAccessRequest) ([]*queuegatev1.CheckResult, error) {
		request := &queuegatev1.BatchCheckQueueAccessRequest{Checks: batch}
		response, err := ask(ctx, c, c.plan.timeout, c.access.BatchCheckQueueAccess, request)
		return response.GetResults(), err
	}
	if err := inBatches(questions, rest, results, (*Check).request, check); err != nil {
		return nil, err
	}
	return results, nil
}

// validateAll returns the faults of all checks, with their indexes.
func validateAll[Question any](questions []Question, faultsOf func(*Question) []Violation) error {
	var all []Violation
	for i := range questions {
		for _, fault := range faultsOf(&questions[i]) {
			fault.Field = fmt.Sprintf("checks[%d].%s", i, fault.Field)
			all = append(all, fault)
		}
	}
	if all != nil {
		return invalid(all...)
	}
	return nil
}

// inBatches runs the checks at the given positions in as few requests as possible, and stores the
// results.
func inBatches[Question any, Request proto.Message, Item batchResult[Response], Response batchResponse](
	questions []Question, positions []int, results []Result,
	request func(*Question) Request, ask func([]Request) ([]Item, error),
) error {
	var batch []Request
	start, size := 0, 0
	send := func(end int) error {
		items, err := ask(batch)
		if err != nil {
			return err
		}
		return unpackBatch(items, positions[start:end], results)
	}
	for end, position := range positions {
		item := request(&questions[position])
		itemSize := proto.Size(item) + itemOverhead
		if itemSize > maxRequestBytes {
			return &Error{
				Kind:    ErrMessageTooLarge,
				Code:    codes.ResourceExhausted,
				Message: fmt.Sprintf("checks[%d] exceeds the size limit of a request (4 MiB)", position),
			}
		}
		if len(batch) == maxBatch || size+itemSize > maxRequestBytes {
			if err := send(end); err != nil {
				return err
			}
			batch, start, size = nil, end, 0
		}
		batch = append(batch, item)
		size += itemSize
	}
	if len(batch) == 0 {
		return nil
	}
	return send(len(positions))
}

// A batchResponse contains a decision about a queue or an application.
type batchResponse interface {
	comparable
	answer
}

// A batchResult is the result of a check of a queue or an application.
type batchResult[Response batchResponse] interface {
	proto.Message
	GetDecision() Response
	GetError() *queuegatev1.Status
	GetSameErrorAs() uint32
}

// unpackBatch stores the results of a batch at the indexes of its checks.
func unpackBatch[Item batchResult[Response], Response batchResponse](
	items []Item, positions []int, results []Result,
) error {
	if len(items) != len(positions) {
		return contractViolated("the server returned %d results for %d checks", len(items), len(positions))
	}
	var none Response
	for i, item := range items {
		result := &results[positions[i]]
		*result = omitted
		if decision := item.GetDecision(); decision != none {
			*result = resultOf(decision)
		} else if failure := item.GetError(); failure != nil {
			result.Err = failureOfItem(failure)
		} else if first := int(item.GetSameErrorAs()); first < i && items[first].GetError() != nil &&
			hasField(item, "same_error_as") {
			result.Err = results[positions[first]].Err
		}
	}
	return nil
}

// resultOf returns the result of a check in a batch, which may fail independently of the others.
func resultOf(response answer) Result {
	decision, err := decisionOf(response)
	return Result{Decision: decision, Err: err}
}

func hasField(message proto.Message, name protoreflect.Name) bool {
	reflected := message.ProtoReflect()
	return reflected.Has(reflected.Descriptor().Fields().ByName(name))
}

// checkColumns stores the results of the checks that fit into columns, and returns the indexes of
// all others.
func (c *Client) checkColumns(ctx context.Context, questions []Check, results []Result) ([]int, error) {
	// The fields shared by all checks of a request.
	type columnKey struct {
		partition string
		access    queuegatev1.AccessType
	}
	var rest []int
	var order []columnKey
	groups := map[columnKey][]int{}
	for position := range questions {
		question := &questions[position]
		if question.RealUser != "" || question.AtLeast != nil || c.noColumns.Load() {
			rest = append(rest, position)
			continue
		}
		key := columnKey{question.Partition, question.Access.number()}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], position)
	}
	for _, key := range order {
		group := groups[key]
		least := minMixedColumnQuestions
		if len(group) == len(questions) {
			least = minColumnQuestions
		}
		if len(group) < least {
			rest = append(rest, group...)
			continue
		}
		// Split evenly, because few names repeat in a small remainder.
		parts := (len(group) + maxColumnQuestions - 1) / maxColumnQuestions
		size := (len(group) + parts - 1) / parts
		for start := 0; start < len(group); start += size {
			positions := group[start:min(start+size, len(group))]
			request := columnsOf(questions, positions)
			if request == nil || c.noColumns.Load() {
				rest = append(rest, positions...)
				continue
			}
			response, err := ask(ctx, c, c.plan.timeout, c.access.CheckQueueAccessColumns, request)
			var failed *Error
			if errors.As(err, &failed) && failed.Code == codes.Unimplemented {
				c.noColumns.Store(true)
				rest = append(rest, positions...)
				continue
			}
			if err == nil {
				err = unpackColumns(response, positions, results)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return rest, nil
}

// columnsOf returns checks with the same partition and access as columns, or nil if columns would
// not be shorter than a batch or would exceed a request.
func columnsOf(questions []Check, positions []int) *queuegatev1.CheckQueueAccessColumnsRequest {
	first := &questions[positions[0]]
	request := &queuegatev1.CheckQueueAccessColumnsRequest{
		Partition:     first.Partition,
		Access:        first.Access.number(),
		UserIndexes:   make([]uint32, len(positions)),
		QueueIndexes:  make([]uint32, len(positions)),
		WithDecisions: true,
	}
	users, queues := map[string]uint32{}, map[string]uint32{}
	var key []byte
	for i, position := range positions {
		question := &questions[position]
		key = appendIdentity(key[:0], question)
		user, known := users[string(key)]
		if !known {
			user = uint32(len(users))
			users[string(key)] = user
			request.Users = append(request.Users, userGroups(question.User, question.Groups, question.NoGroups))
		}
		queue, known := queues[question.Queue]
		if !known {
			queue = uint32(len(queues))
			queues[question.Queue] = queue
			request.Queues = append(request.Queues, question.Queue)
		}
		request.UserIndexes[i], request.QueueIndexes[i] = user, queue
	}
	if max(len(users), len(queues)) > maxColumnNames || len(users)+len(queues) > len(positions) ||
		proto.Size(request) > maxRequestBytes {
		return nil
	}
	return request
}

// appendIdentity appends the length-prefixed user and groups, with an empty group for NoGroups, so
// that distinct identities always differ.
func appendIdentity(key []byte, question *Check) []byte {
	key = append(binary.AppendUvarint(key, uint64(len(question.User))), question.User...)
	if question.NoGroups {
		key = append(key, 0)
	}
	for _, group := range question.Groups {
		key = append(binary.AppendUvarint(key, uint64(len(group))), group...)
	}
	return key
}

// unpackColumns stores the results of columns at the indexes of their checks.
func unpackColumns(
	response *queuegatev1.CheckQueueAccessColumnsResponse, positions []int, results []Result,
) error {
	indexes := response.GetDecisionIndexes()
	if len(indexes) != len(positions) {
		return contractViolated("the server returned %d results for %d checks", len(indexes), len(positions))
	}
	different := []Result{omitted}
	for _, each := range response.GetDecisions() {
		different = append(different, resultOf(each))
	}
	for i, index := range indexes {
		if int(index) >= len(different) {
			return contractViolated("the response does not match the request")
		}
		results[positions[i]] = different[index]
	}
	for _, each := range response.GetErrors() {
		failed := Result{Err: failureOfItem(each.GetError())}
		for _, number := range each.GetQuestions() {
			if int(number) >= len(positions) {
				return contractViolated("the response does not match the request")
			}
			results[positions[number]] = failed
		}
	}
	return nil
}
