package queuegate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

const (
	// A large configuration takes seconds.
	policyTimeout = 30 * time.Second
	// A call that waits for gates takes as long as their leases.
	waitTimeout = 15 * time.Second
	maxUsers    = 10_000
)

// ResolveOutcome is the outcome of a resolution.
type ResolveOutcome string

// The outcomes.
const (
	// OutcomeUnspecified is an outcome from a server newer than this client.
	OutcomeUnspecified ResolveOutcome = "unspecified"
	// Resolved: the groups are known.
	Resolved ResolveOutcome = "resolved"
	// NotFound: the resolver is certain that the user does not exist.
	NotFound ResolveOutcome = "not_found"
	// Unavailable: the resolver was unavailable, or its answer was incomplete.
	Unavailable ResolveOutcome = "unavailable"
)

// A Resolution is the groups of a user.
type Resolution struct {
	User string
	// Groups has the primary group first; empty unless Outcome is Resolved.
	Groups   []string
	Outcome  ResolveOutcome
	Resolver string
	Cached   bool
	// Stale: expired, because the resolver was unavailable or has not answered yet.
	Stale bool
	// ResolvedAt and ExpiresAt are zero if not known.
	ResolvedAt time.Time
	ExpiresAt  time.Time
	// Detail is why the user is unknown or the resolver unavailable, for people.
	Detail string
}

// ResolveOptions are what Resolve may be given; the zero value is the default of each.
type ResolveOptions struct {
	// Partition is the partition whose resolver is asked. Empty: default.
	Partition string
	// BypassCache asks the resolver even if the answer is cached.
	BypassCache bool
}

// Resolve resolves the groups of a user as a decision does. A user who does not exist, or a
// resolver that is unavailable, is an outcome and not an error.
func (c *Client) Resolve(ctx context.Context, user string, options ResolveOptions) (Resolution, error) {
	faults := appendFault(nil, "user", user, required)
	if faults = appendFault(faults, "partition", options.Partition, optional); faults != nil {
		return Resolution{}, invalid(faults...)
	}
	ctx, cancel := limited(ctx, c.plan.timeout)
	defer cancel()
	response, err := ask(ctx, c, c.userGroups.ResolveUserGroups, &queuegatev1.ResolveUserGroupsRequest{
		Partition: options.Partition, User: user, BypassCache: options.BypassCache,
	})
	if err != nil {
		return Resolution{}, err
	}
	return Resolution{
		User:       response.GetUserGroup().GetUser(),
		Groups:     response.GetUserGroup().GetGroups(),
		Outcome:    resolveOutcomes.of(int32(response.GetOutcome())),
		Resolver:   response.GetResolver(),
		Cached:     response.GetCached(),
		Stale:      response.GetStale(),
		ResolvedAt: moment(response.GetResolvedAt()),
		ExpiresAt:  moment(response.GetExpiresAt()),
		Detail:     response.GetDetail(),
	}, nil
}

// A Cursor is a change of a server's state: a check with this [Check.AtLeast] takes it into account.
type Cursor struct {
	// Epoch identifies the server process that made it.
	Epoch []byte
	// Sequence is the number of the change.
	Sequence uint64
}

// InvalidateOptions are what Invalidate and InvalidateAll may be given; the zero value is the
// default of each.
type InvalidateOptions struct {
	// Partition is the partition whose users are meant. Empty: default.
	Partition string
	// Wait waits until no [Gate] decides from the groups that are invalidated, which takes up to
	// 6 s. Without a deadline in the context, such a call takes up to 15 s.
	Wait bool
}

// An InvalidationResult is the result of an invalidation.
type InvalidationResult struct {
	// Dropped is the number of cache entries that were dropped.
	Dropped uint64
	// Cursor is the change; nil from a server that is too old.
	Cursor *Cursor
	// WaitedOut are, with Wait, the gates that did not confirm the change, and whose leases have
	// ended.
	WaitedOut []string
}

// Invalidate drops the cached groups of some users, so that the next decision resolves them again.
// With an error, the result is that of the users until then.
func (c *Client) Invalidate(
	ctx context.Context, users []string, options InvalidateOptions,
) (InvalidationResult, error) {
	faults := appendFault(nil, "partition", options.Partition, optional)
	for i, user := range users {
		if textFault(user, required) != "" {
			faults = appendFault(faults, fmt.Sprintf("users[%d]", i), user, required)
		}
	}
	if faults != nil {
		return InvalidationResult{}, invalid(faults...)
	}
	ctx, cancel := c.limitedWait(ctx, options)
	defer cancel()
	var result InvalidationResult
	for len(users) > 0 {
		part := users[:min(maxUsers, len(users))]
		users = users[len(part):]
		if err := c.invalidate(ctx, part, options, &result); err != nil {
			return result, err
		}
	}
	return result, nil
}

// InvalidateAll does what Invalidate does, for all users of a partition.
func (c *Client) InvalidateAll(
	ctx context.Context, options InvalidateOptions,
) (InvalidationResult, error) {
	if faults := appendFault(nil, "partition", options.Partition, optional); faults != nil {
		return InvalidationResult{}, invalid(faults...)
	}
	ctx, cancel := c.limitedWait(ctx, options)
	defer cancel()
	var result InvalidationResult
	err := c.invalidate(ctx, nil, options, &result)
	return result, err
}

func (c *Client) limitedWait(
	ctx context.Context, options InvalidateOptions,
) (context.Context, context.CancelFunc) {
	if options.Wait {
		return limited(ctx, waitTimeout)
	}
	return limited(ctx, c.plan.timeout)
}

// invalidate makes one call, and adds its result to one.
func (c *Client) invalidate(
	ctx context.Context, users []string, options InvalidateOptions, result *InvalidationResult,
) error {
	response, err := ask(ctx, c, c.userGroups.InvalidateUserGroups, &queuegatev1.InvalidateUserGroupsRequest{
		Partition: options.Partition, Users: users, Wait: options.Wait,
	})
	if err != nil {
		return err
	}
	result.Dropped += response.GetDropped()
	result.Cursor = cursorOf(response.GetCursor())
	for _, name := range response.GetWaitedOut() {
		if !slices.Contains(result.WaitedOut, name) {
			result.WaitedOut = append(result.WaitedOut, name)
		}
	}
	return nil
}

func cursorOf(given *queuegatev1.Cursor) *Cursor {
	if given == nil {
		return nil
	}
	return &Cursor{given.GetEpoch(), given.GetSequence()}
}

// A Diagnostic is an error or a warning about a configuration.
type Diagnostic struct {
	// Severity is error (the configuration cannot be served), warning (probably not as intended)
	// or unspecified.
	Severity string
	// Line and Column start at 1; 0: no position.
	Line, Column uint32
	// Queue is the queue that it is about, if any.
	Queue   string
	Message string
	Remedy  string
	// File is the name of the file; empty for a text that was sent.
	File string
}

// A PolicyQueue is a queue and its ACLs as configured. A missing ACL is empty.
type PolicyQueue struct {
	Path      string
	SubmitACL string
	AdminACL  string
	// SubmitACLDroppedNames are names in the submit ACL that the ACL grammar does not accept. They
	// never match.
	SubmitACLDroppedNames []string
	// AdminACLDroppedNames are those in the admin ACL.
	AdminACLDroppedNames []string
}

// PolicyInfo is the policy of a partition that the server is serving.
type PolicyInfo struct {
	// Source is where it was read from, for display.
	Source   string
	Revision uint64
	// Checksum is the SHA-256 of the configuration in upper-case hexadecimal; for several files,
	// that of their checksums.
	Checksum string
	LoadedAt time.Time
	// Queues has each queue after its parent and before its next sibling.
	Queues     []PolicyQueue
	Resolver   string
	Partitions []string
	// Diagnostics are the warnings about this revision.
	Diagnostics []Diagnostic
	// ReloadFailedAt is the time of the last reload if it failed, and otherwise zero.
	ReloadFailedAt    time.Time
	ReloadDiagnostics []Diagnostic
	// Templates are the ACLs of queues that YARN creates when somebody submits to them.
	Templates []QueueTemplate
}

// A QueueTemplate has the ACLs of queues that YARN's capacity scheduler creates when somebody submits
// to them.
type QueueTemplate struct {
	// Path is that of the queues below which it applies. Last levels that are * stand for any names.
	Path string
	// Kind is which of the new queues it applies to, as Hadoop's configuration calls it.
	Kind string
	// SubmitACL is the text of the submit ACL; nil if the template sets none.
	SubmitACL *string
	// AdminACL is the text of the admin ACL; nil if the template sets none.
	AdminACL *string
}

// A ReloadResult is the result of a reload.
type ReloadResult struct {
	Succeeded bool
	// Revision is the one that the server is serving now.
	Revision    uint64
	Diagnostics []Diagnostic
	// Cursor is the newest change; nil from a server that is too old.
	Cursor *Cursor
	// WaitedOut are, with Wait, the gates that did not confirm the change, and whose leases have
	// ended.
	WaitedOut []string
}

// ReloadOptions are what Reload may be given; the zero value is the default.
type ReloadOptions struct {
	// Wait waits until no [Gate] uses the old policy, which takes up to 6 s.
	Wait bool
}

// A ValidationResult is the result of a validation.
type ValidationResult struct {
	// Valid is true only if the configuration can be served.
	Valid       bool
	Diagnostics []Diagnostic
}

// GetPolicy returns the policy of a partition (empty: default). With a prefix, it contains only that
// queue and the queues below it.
func (c *Client) GetPolicy(ctx context.Context, partition, prefix string) (PolicyInfo, error) {
	faults := appendFault(nil, "partition", partition, optional)
	if faults = appendFault(faults, "prefix", prefix, optional); faults != nil {
		return PolicyInfo{}, invalid(faults...)
	}
	ctx, cancel := limited(ctx, c.plan.timeout)
	defer cancel()
	request := &queuegatev1.GetPolicyRequest{Partition: partition, Prefix: prefix}
	response, err := ask(ctx, c, c.policy.GetPolicy, request)
	if err != nil {
		return PolicyInfo{}, err
	}
	info := PolicyInfo{
		Source:            response.GetSource(),
		Revision:          response.GetRevision(),
		Checksum:          response.GetChecksum(),
		LoadedAt:          moment(response.GetLoadedAt()),
		Resolver:          response.GetResolver(),
		Partitions:        response.GetPartitions(),
		Diagnostics:       diagnosticsOf(response.GetDiagnostics()),
		ReloadFailedAt:    moment(response.GetReloadFailedAt()),
		ReloadDiagnostics: diagnosticsOf(response.GetReloadDiagnostics()),
	}
	for _, queue := range response.GetQueues() {
		info.Queues = append(info.Queues, PolicyQueue{
			Path:                  queue.GetPath(),
			SubmitACL:             queue.GetSubmitAcl(),
			AdminACL:              queue.GetAdminAcl(),
			SubmitACLDroppedNames: queue.GetSubmitAclDroppedNames(),
			AdminACLDroppedNames:  queue.GetAdminAclDroppedNames(),
		})
	}
	for _, template := range response.GetTemplates() {
		info.Templates = append(info.Templates, QueueTemplate{
			Path:      template.GetPath(),
			Kind:      template.GetKind(),
			SubmitACL: template.SubmitAcl,
			AdminACL:  template.AdminAcl,
		})
	}
	return info, nil
}

// Reload reads the configuration of the server again. An invalid one changes nothing, and is a
// result and not an error. Without a deadline in the context it takes up to 30 s.
func (c *Client) Reload(ctx context.Context, options ReloadOptions) (ReloadResult, error) {
	ctx, cancel := limited(ctx, policyTimeout)
	defer cancel()
	request := &queuegatev1.ReloadPolicyRequest{Wait: options.Wait}
	response, err := ask(ctx, c, c.policy.ReloadPolicy, request)
	if err != nil {
		return ReloadResult{}, err
	}
	return ReloadResult{
		Succeeded:   response.GetSucceeded(),
		Revision:    response.GetRevision(),
		Diagnostics: diagnosticsOf(response.GetDiagnostics()),
		Cursor:      cursorOf(response.GetCursor()),
		WaitedOut:   response.GetWaitedOut(),
	}, nil
}

// A Replica is a server of a fleet, or one of its workers.
type Replica struct {
	Name string
	// State is following, starting, joining or silent; empty if this version does not know it.
	State string
	// Self is true for the replica that was asked.
	Self    bool
	Version string
	// Lag is how many changes it has yet to carry out.
	Lag            uint64
	PolicyRevision uint64
	// PolicyChecksum is empty if it has no policy yet.
	PolicyChecksum string
	Gates          uint32
	// Silent is for how long it has not reported itself.
	Silent time.Duration
}

// FleetInfo is a fleet as one of its replicas sees it.
type FleetInfo struct {
	// Replicas is empty if the server belongs to no fleet.
	Replicas []Replica
	// Connected is true if the replica that was asked reaches Redis.
	Connected bool
	// Agreed is true if all replicas follow the fleet and serve the same policy. Without problems,
	// it is false only while a replica is starting.
	Agreed bool
	// Problems are what keeps the fleet from being healthy, in sentences for people.
	Problems []string
}

// GetFleet returns the replicas of the fleet that the server belongs to.
func (c *Client) GetFleet(ctx context.Context) (FleetInfo, error) {
	ctx, cancel := limited(ctx, c.plan.timeout)
	defer cancel()
	response, err := ask(ctx, c, c.policy.GetFleet, &queuegatev1.GetFleetRequest{})
	if err != nil {
		return FleetInfo{}, err
	}
	info := FleetInfo{
		Connected: response.GetConnected(),
		Agreed:    response.GetAgreed(),
		Problems:  response.GetProblems(),
	}
	for _, replica := range response.GetReplicas() {
		info.Replicas = append(info.Replicas, Replica{
			Name:           replica.GetName(),
			State:          replicaStates[replica.GetState()],
			Self:           replica.GetSelf(),
			Version:        replica.GetVersion(),
			Lag:            replica.GetLag(),
			PolicyRevision: replica.GetPolicyRevision(),
			PolicyChecksum: replica.GetPolicyChecksum(),
			Gates:          replica.GetGates(),
			Silent:         time.Duration(replica.GetSilentSeconds() * float64(time.Second)),
		})
	}
	return info, nil
}

var replicaStates = map[queuegatev1.ReplicaState]string{
	queuegatev1.ReplicaState_REPLICA_STATE_FOLLOWING: "following",
	queuegatev1.ReplicaState_REPLICA_STATE_JOINING:   "joining",
	queuegatev1.ReplicaState_REPLICA_STATE_SILENT:    "silent",
	queuegatev1.ReplicaState_REPLICA_STATE_STARTING:  "starting",
}

// Validate validates a configuration without serving it. The format is yunikorn, fair-scheduler
// or capacity-scheduler, or for the files beside a policy yarn-site or spark-defaults; if it is
// empty, the server detects it. Without a deadline in the context it takes up to 30 s.
func (c *Client) Validate(ctx context.Context, content, format string) (ValidationResult, error) {
	faults := appendFault(nil, "content", content, optional)
	if faults = appendFault(faults, "format", format, optional); faults != nil {
		return ValidationResult{}, invalid(faults...)
	}
	ctx, cancel := limited(ctx, policyTimeout)
	defer cancel()
	request := &queuegatev1.ValidatePolicyRequest{Content: content, Format: format}
	response, err := ask(ctx, c, c.policy.ValidatePolicy, request)
	if err != nil {
		return ValidationResult{}, err
	}
	return ValidationResult{response.GetValid(), diagnosticsOf(response.GetDiagnostics())}, nil
}

// HealthStatus is the health of the server or of one of its services.
type HealthStatus string

// The health. Only Serving is healthy.
const (
	HealthUnknown HealthStatus = "unknown"
	Serving       HealthStatus = "serving"
	// NotServing: running, but without a policy yet, or shutting down.
	NotServing HealthStatus = "not_serving"
	// ServiceUnknown: the server has no service of that name.
	ServiceUnknown HealthStatus = "service_unknown"
)

// CheckHealth returns the health of the server, or of one of its services by full name. The call is
// not retried: a probe reports the current state.
func (c *Client) CheckHealth(ctx context.Context, service string) (HealthStatus, error) {
	if faults := appendFault(nil, "service", service, optional); faults != nil {
		return HealthUnknown, invalid(faults...)
	}
	ctx, cancel := limited(ctx, c.plan.timeout)
	defer cancel()
	response, err := ask(ctx, c, c.health.Check, &healthpb.HealthCheckRequest{Service: service})
	var failed *Error
	switch {
	case errors.As(err, &failed) && failed.Code == codes.NotFound:
		return ServiceUnknown, nil
	case err != nil:
		return HealthUnknown, err
	}
	switch response.GetStatus() {
	case healthpb.HealthCheckResponse_SERVING:
		return Serving, nil
	case healthpb.HealthCheckResponse_NOT_SERVING:
		return NotServing, nil
	case healthpb.HealthCheckResponse_SERVICE_UNKNOWN:
		return ServiceUnknown, nil
	}
	return HealthUnknown, nil
}

var (
	resolveOutcomes = newEnumNames[ResolveOutcome](queuegatev1.ResolveOutcome_name)
	severities      = newEnumNames[string](queuegatev1.Severity_name)
)

func diagnosticsOf(given []*queuegatev1.Diagnostic) []Diagnostic {
	diagnostics := make([]Diagnostic, len(given))
	for i, each := range given {
		diagnostics[i] = Diagnostic{
			Severity: severities.of(int32(each.GetSeverity())),
			Line:     each.GetLine(),
			Column:   each.GetColumn(),
			Queue:    each.GetQueue(),
			Message:  each.GetMessage(),
			Remedy:   each.GetRemedy(),
			File:     each.GetFile(),
		}
	}
	return diagnostics
}

// moment returns a time of a response; zero if it is not set or out of range.
func moment(given *timestamppb.Timestamp) time.Time {
	if !given.IsValid() {
		return time.Time{}
	}
	return given.AsTime()
}
