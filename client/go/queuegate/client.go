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

// A Client is a client of a queuegate server. Goroutines should share a client, since all its calls
// use a single connection, which is opened on the first call and reopened if lost.
type Client struct {
	owner      string // what the caller closes, for messages: client or gate
	plan       plan
	connection *grpc.ClientConn
	access     queuegatev1.AccessServiceClient
	userGroups queuegatev1.UserGroupServiceClient
	policy     queuegatev1.PolicyServiceClient
	health     healthpb.HealthClient
	sync       queuegatev1.SyncServiceClient
	closed     atomic.Bool
	noColumns  atomic.Bool // the server does not support columns
	hasWorked  atomic.Bool // the server has responded, so the TLS settings are correct
}

// New creates a client, which connects on the first call. An error names the field of config that is
// invalid, or the file that cannot be read.
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
		owner:      "client",
		plan:       plan,
		connection: connection,
		access:     queuegatev1.NewAccessServiceClient(connection),
		userGroups: queuegatev1.NewUserGroupServiceClient(connection),
		policy:     queuegatev1.NewPolicyServiceClient(connection),
		health:     healthpb.NewHealthClient(connection),
		sync:       queuegatev1.NewSyncServiceClient(connection),
	}, nil
}

// Close closes the connection. Pending and later calls return [ErrClosed]. Closing a client
// again has no effect.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	return c.connection.Close()
}

// limited returns a context with a deadline. The limit applies only if ctx has no deadline.
func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("the time limit of %v has passed", limit))
}

// ask makes a call, unless its request has faults. The limit applies to a context without a
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
		return nil, c.errClosed()
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

// pages yields pages until the last one or an error.
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
