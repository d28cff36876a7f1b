package queuegate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const (
	// Loading a large policy takes seconds.
	policyTimeout = 30 * time.Second
	// Waiting for gates takes up to the length of their leases.
	waitTimeout = 15 * time.Second
	maxUsers    = 10_000
)

// ResolveOptions are the options of [Client.Resolve].
type ResolveOptions struct {
	// Partition is the partition whose resolver is used. Defaults to "default".
	Partition string
	// BypassCache queries the resolver even if the groups are cached.
	BypassCache bool
}

// Resolve resolves a user's groups, as a check does. An unknown user or an unavailable resolver is
// an outcome rather than an error.
func (c *Client) Resolve(
	ctx context.Context, user string, options ResolveOptions,
) (*queuegatev1.ResolveUserGroupsResponse, error) {
	faults := appendFault(nil, "user", user, required)
	faults = appendFault(faults, "partition", options.Partition, optional)
	return ask(ctx, c, c.plan.timeout, c.userGroups.ResolveUserGroups, &queuegatev1.ResolveUserGroupsRequest{
		Partition: options.Partition, User: user, BypassCache: options.BypassCache,
	}, faults...)
}

// InvalidateOptions are the options of [Client.Invalidate] and [Client.InvalidateAll].
type InvalidateOptions struct {
	// Partition is the partition whose groups to invalidate. Defaults to "default".
	Partition string
	// Wait waits until no [Gate] uses the invalidated groups: up to 6 s, or 8 s in a fleet. StaleGates of
	// the response names the exceptions. Without a deadline in the context, such a call times out after
	// 15 s.
	Wait bool
}

// Invalidate invalidates the cached groups of users, so that the next decision resolves them again.
// If an error occurs, the response covers the users processed before it.
func (c *Client) Invalidate(
	ctx context.Context, users []string, options InvalidateOptions,
) (*queuegatev1.InvalidateUserGroupsResponse, error) {
	total := &queuegatev1.InvalidateUserGroupsResponse{}
	faults := appendFault(nil, "partition", options.Partition, optional)
	for i, user := range users {
		if textFault(user, required) != "" {
			faults = appendFault(faults, fmt.Sprintf("users[%d]", i), user, required)
		}
	}
	if faults != nil {
		return total, invalid(faults...)
	}
	ctx, cancel := limited(ctx, c.invalidationTimeout(options))
	defer cancel()
	for part := range slices.Chunk(users, maxUsers) {
		response, err := c.invalidate(ctx, part, options)
		if err != nil {
			return total, err
		}
		total.Dropped += response.GetDropped()
		total.Cursor = response.GetCursor()
		for _, gate := range response.GetWaitedOut() {
			if !slices.Contains(total.WaitedOut, gate) {
				total.WaitedOut = append(total.WaitedOut, gate)
			}
		}
		addStaleGates(total, response.GetStaleGates())
	}
	return total, nil
}

// addStaleGates adds gates that may still use the old groups: each name once, with the longest of its times.
func addStaleGates(total *queuegatev1.InvalidateUserGroupsResponse, gates []*queuegatev1.StaleGate) {
	for _, gate := range gates {
		same := func(other *queuegatev1.StaleGate) bool { return other.GetName() == gate.GetName() }
		if i := slices.IndexFunc(total.StaleGates, same); i >= 0 {
			earlier := total.StaleGates[i]
			earlier.RemainingMillis = max(earlier.RemainingMillis, gate.RemainingMillis)
		} else {
			total.StaleGates = append(total.StaleGates, gate)
		}
	}
}

// InvalidateAll invalidates the cached groups of all users of a partition, as Invalidate does.
func (c *Client) InvalidateAll(
	ctx context.Context, options InvalidateOptions,
) (*queuegatev1.InvalidateUserGroupsResponse, error) {
	return c.invalidate(ctx, nil, options)
}

func (c *Client) invalidate(
	ctx context.Context, users []string, options InvalidateOptions,
) (*queuegatev1.InvalidateUserGroupsResponse, error) {
	faults := appendFault(nil, "partition", options.Partition, optional)
	limit := c.invalidationTimeout(options)
	return ask(ctx, c, limit, c.userGroups.InvalidateUserGroups, &queuegatev1.InvalidateUserGroupsRequest{
		Partition: options.Partition, Users: users, Wait: options.Wait,
	}, faults...)
}

func (c *Client) invalidationTimeout(options InvalidateOptions) time.Duration {
	if options.Wait {
		return waitTimeout
	}
	return c.plan.timeout
}

// GetPolicy returns the policy of a partition, by default the only one or "default". With a prefix,
// it contains only that queue and the queues below it.
func (c *Client) GetPolicy(
	ctx context.Context, partition, prefix string,
) (*queuegatev1.GetPolicyResponse, error) {
	faults := appendFault(nil, "partition", partition, optional)
	faults = appendFault(faults, "prefix", prefix, optional)
	request := &queuegatev1.GetPolicyRequest{Partition: partition, Prefix: prefix}
	return ask(ctx, c, c.plan.timeout, c.policy.GetPolicy, request, faults...)
}

// ReloadOptions are the options of [Client.Reload].
type ReloadOptions struct {
	// Wait waits until no [Gate] uses the old policy: up to 6 s, or 8 s in a fleet. StaleGates of the
	// response names the exceptions.
	Wait bool
}

// Reload makes the server reload its policy. An invalid policy has no effect, and is reported in
// the response rather than as an error. Without a deadline in the context, the call times out after
// 30 s.
func (c *Client) Reload(
	ctx context.Context, options ReloadOptions,
) (*queuegatev1.ReloadPolicyResponse, error) {
	request := &queuegatev1.ReloadPolicyRequest{Wait: options.Wait}
	return ask(ctx, c, policyTimeout, c.policy.ReloadPolicy, request)
}

// GetFleet returns the replicas of the server's fleet, if it belongs to one.
func (c *Client) GetFleet(ctx context.Context) (*queuegatev1.GetFleetResponse, error) {
	return ask(ctx, c, c.plan.timeout, c.policy.GetFleet, &queuegatev1.GetFleetRequest{})
}

// Validate validates a policy, or a file that accompanies one, without serving it. The format is
// yunikorn, fair-scheduler, capacity-scheduler or kubernetes for a policy, or else yarn-site or
// spark-defaults. If empty, it is detected. Without a deadline in the context, the call times out
// after 30 s.
func (c *Client) Validate(
	ctx context.Context, content, format string,
) (*queuegatev1.ValidatePolicyResponse, error) {
	faults := appendFault(nil, "content", content, optional)
	faults = appendFault(faults, "format", format, optional)
	request := &queuegatev1.ValidatePolicyRequest{Content: content, Format: format}
	return ask(ctx, c, policyTimeout, c.policy.ValidatePolicy, request, faults...)
}

// CheckHealth returns the health of the server, or of one of its services by full name. The call is
// not retried, because a probe must report the current state.
func (c *Client) CheckHealth(
	ctx context.Context, service string,
) (healthpb.HealthCheckResponse_ServingStatus, error) {
	faults := appendFault(nil, "service", service, optional)
	request := &healthpb.HealthCheckRequest{Service: service}
	response, err := ask(ctx, c, c.plan.timeout, c.health.Check, request, faults...)
	var failed *Error
	if errors.As(err, &failed) && failed.Code == codes.NotFound {
		return healthpb.HealthCheckResponse_SERVICE_UNKNOWN, nil
	}
	return response.GetStatus(), err
}
