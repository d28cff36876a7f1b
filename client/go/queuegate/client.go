package queuegate

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// A Client asks one queuegate server. Goroutines can and should share one: all its calls use one
// connection, which is opened on the first call and reopened if it is lost.
type Client struct {
	plan       plan
	connection *grpc.ClientConn
	access     queuegatev1.AccessServiceClient
	userGroups queuegatev1.UserGroupServiceClient
	policy     queuegatev1.PolicyServiceClient
	health     healthpb.HealthClient
	sync       queuegatev1.SyncServiceClient
	closed     atomic.Bool
	noColumns  atomic.Bool // the server is too old for them
	hasWorked  atomic.Bool // the server has answered, so the TLS settings are right
}

// New creates a client. It does not connect yet. An error says which field of config is invalid, or
// which of its files cannot be read.
func New(config Config) (*Client, error) {
	plan, err := newPlan(config)
	if err != nil {
		return nil, fmt.Errorf("queuegate: %w", err)
	}
	connection, err := grpc.NewClient(plan.address.target, plan.options...)
	if err != nil {
		return nil, fmt.Errorf("queuegate: %w", err)
	}
	return &Client{
		plan:       plan,
		connection: connection,
		access:     queuegatev1.NewAccessServiceClient(connection),
		userGroups: queuegatev1.NewUserGroupServiceClient(connection),
		policy:     queuegatev1.NewPolicyServiceClient(connection),
		health:     healthpb.NewHealthClient(connection),
		sync:       queuegatev1.NewSyncServiceClient(connection),
	}, nil
}

// Close closes the connection. Pending and later calls end with [ErrClosed]. Closing it again does
// nothing.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	return c.connection.Close()
}

// limited returns a context with a deadline: its own, or one at the end of the time limit.
func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("the time limit of %v has passed", limit))
}

// ask makes one call, unless there are faults in its request. The limit is for a context without a
// deadline.
func ask[Request, Response any](
	ctx context.Context,
	c *Client,
	limit time.Duration,
	method func(context.Context, *Request, ...grpc.CallOption) (*Response, error),
	request *Request,
	faults ...Violation,
) (*Response, error) {
	if len(faults) > 0 {
		return nil, invalid(faults...)
	}
	if c.closed.Load() {
		return nil, errClosed()
	}
	ctx, cancel := limited(ctx, limit)
	defer cancel()
	response, err := method(ctx, request)
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	c.hasWorked.Store(true)
	return response, nil
}

// pages asks for one page after the other, until the last one or an error.
func pages[Page interface{ GetNextPageToken() string }](
	ask func(token string) (Page, error),
) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		token := ""
		for {
			page, err := ask(token)
			if !yield(page, err) || err != nil {
				return
			}
			next := page.GetNextPageToken()
			if next == "" {
				return
			}
			if next == token {
				var none Page
				yield(none, contractViolated("the server returned the same page token twice"))
				return
			}
			token = next
		}
	}
}
