package queuegate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	queuegatev1 "github.com/queuegate/queuegate/client/go/queuegate/v1"
)

// The kinds of errors, for [errors.Is]. A denial is a decision, not an error.
//
// A call that exceeds its time limit returns a [context.DeadlineExceeded], and a call with a cancelled
// context a [context.Canceled]. Both are an ErrUnavailable as well.
var (
	// ErrRequestRejected: a retry cannot succeed unless the request, the caller's rights or the
	// policy change.
	ErrRequestRejected = errors.New("queuegate: the request was rejected")
	// ErrInvalidArgument: a field of the request is missing or malformed; see
	// [Error.Violations]. It is an ErrRequestRejected.
	ErrInvalidArgument = fmt.Errorf("%w: invalid argument", ErrRequestRejected)
	// ErrUnknownPartition: the policy has no such partition. It is an ErrRequestRejected.
	ErrUnknownPartition = fmt.Errorf("%w: unknown partition", ErrRequestRejected)
	// ErrNotPermitted: the caller is not authenticated (the code is Unauthenticated) or lacks the
	// required role (PermissionDenied). It is an ErrRequestRejected.
	ErrNotPermitted = fmt.Errorf("%w: not permitted", ErrRequestRejected)
	// ErrMessageTooLarge: the request exceeds the server's limits.max_message, or the response
	// exceeds the client's limit of 64 MiB. Split the request. It is an ErrRequestRejected.
	ErrMessageTooLarge = fmt.Errorf("%w: message too large", ErrRequestRejected)

	// ErrUnavailable: no decision is available now. Do not grant access; a retry may succeed, see
	// [Error.RetryAfter].
	ErrUnavailable = errors.New("queuegate: no answer")
	// ErrServerUnavailable: the server cannot be reached, has no policy yet (the reason is
	// NOT_READY) or is shutting down (DRAINING). It is an ErrUnavailable.
	ErrServerUnavailable = fmt.Errorf("%w: server unavailable", ErrUnavailable)
	// ErrNotCaughtUp: the server has not applied the change in [Check.AtLeast], which was made
	// on another server, or on this server before it was restarted. It is an ErrServerUnavailable.
	ErrNotCaughtUp = fmt.Errorf("%w: not caught up", ErrServerUnavailable)
	// ErrGroupsUnavailable: the decision depends on the user's groups, which the server could not
	// resolve. It is an ErrUnavailable.
	ErrGroupsUnavailable = fmt.Errorf("%w: groups unavailable", ErrUnavailable)
	// ErrOverloaded: the server is overloaded, or the caller exceeded its rate limit (the reason
	// is RATE_LIMITED). It is an ErrUnavailable.
	ErrOverloaded = fmt.Errorf("%w: overloaded", ErrUnavailable)
	// ErrClosed: the client or gate was closed before or during the call; the message says which. It is an
	// ErrUnavailable.
	ErrClosed = fmt.Errorf("%w: closed", ErrUnavailable)

	// ErrServer: the server failed (the message contains the ID of its log entry), its response
	// violates the contract, or it is not a queuegate server.
	ErrServer = errors.New("queuegate: the server failed")

	errDeadlineExceeded = fmt.Errorf("%w: %w", ErrUnavailable, context.DeadlineExceeded)
	errCanceled         = fmt.Errorf("%w: %w", ErrUnavailable, context.Canceled)
)

// An Error is the error of a failed call, for [errors.As].
type Error struct {
	// Kind is one of the Err values, for [errors.Is].
	Kind error
	// Code is the gRPC status code, returned by [status.Code] as well.
	Code codes.Code
	// Reason is the server's machine-readable reason: a value of the contract's ErrorReason without
	// its prefix, such as RESOLVER_UNAVAILABLE. Empty if the server gave none, for example because
	// it could not be reached.
	Reason string
	// Message describes the failure in words.
	Message string
	// RetryAfter is the delay before a retry suggested by the server, if any.
	RetryAfter time.Duration
	// Violations are the rejected fields.
	Violations []Violation
}

// A Violation is a rejected field.
type Violation struct {
	// Field is the path of the field in the request, for example user.groups[3].
	Field string
	// Description describes the fault.
	Description string
}

// Error returns the message, prefixed with the name of this package.
func (e *Error) Error() string { return "queuegate: " + e.Message }

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// GRPCStatus returns the code and the message, for [status.FromError].
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

func invalid(violations ...Violation) *Error {
	faults := make([]string, len(violations))
	for i, each := range violations {
		faults[i] = each.Field + " " + each.Description
	}
	return &Error{
		Kind:       ErrInvalidArgument,
		Code:       codes.InvalidArgument,
		Message:    strings.Join(faults, "; "),
		Violations: violations,
	}
}

func contractViolated(format string, arguments ...any) *Error {
	return &Error{Kind: ErrServer, Code: codes.Internal, Message: fmt.Sprintf(format, arguments...)}
}

// failureOfItem returns the error of a check in a batch.
func failureOfItem(given *queuegatev1.Status) *Error {
	return fromStatus(status.FromProto(&statuspb.Status{
		Code: given.GetCode(), Message: given.GetMessage(), Details: given.GetDetails(),
	}))
}

// failure converts an error of gRPC.
func (c *Client) failure(ctx context.Context, err error) *Error {
	if c.closed.Load() {
		return c.errClosed()
	}
	given, _ := status.FromError(err)
	failure := fromStatus(given)
	if failure.Reason != "" {
		return failure
	}
	address, details := c.plan.address.text, given.Message()
	switch failure.Code {
	case codes.ResourceExhausted:
		if !strings.Contains(details, "larger than max") {
			break
		}
		failure.Kind = ErrMessageTooLarge
		message := "the request is too large for %s: send less at a time, or raise the server's" +
			" limits.max_message (%s)"
		if strings.Contains(details, fmt.Sprintf("vs. %d", maxReceiveBytes)) { // the client's own limit
			message = "the response of %s is too large: request less at a time (%s)"
		}
		failure.Message = fmt.Sprintf(message, address, details)
	case codes.Unavailable:
		failure.Message = unavailable(details, address, c.plan.encrypted, c.hasWorked.Load())
	case codes.DeadlineExceeded:
		failure.Message = fmt.Sprintf("no response from %s in time (%s)", address, details)
		if cause := context.Cause(ctx); cause != nil {
			failure.Message = fmt.Sprintf("no response from %s: %v (%s)", address, cause, details)
		}
	case codes.Canceled:
		failure.Message = fmt.Sprintf("the call to %s was cancelled: %s", address, details)
		if ctx.Err() != nil {
			failure.Kind = errCanceled
		}
	case codes.Unimplemented:
		failure.Message = fmt.Sprintf(
			"%s does not implement this call; is it a queuegate server? (%s)", address, details)
	}
	return failure
}

func (c *Client) errClosed() *Error {
	return &Error{Kind: ErrClosed, Code: codes.Canceled, Message: fmt.Sprintf("the %s is closed", c.owner)}
}

// kinds maps status codes to kinds of errors. All other codes become ErrServer.
var kinds = map[codes.Code]error{
	codes.InvalidArgument:   ErrInvalidArgument,
	codes.NotFound:          ErrUnknownPartition,
	codes.PermissionDenied:  ErrNotPermitted,
	codes.Unauthenticated:   ErrNotPermitted,
	codes.ResourceExhausted: ErrOverloaded,
	codes.DeadlineExceeded:  errDeadlineExceeded,
	codes.Unavailable:       ErrServerUnavailable,
	codes.Canceled:          ErrServerUnavailable,
}

func fromStatus(given *status.Status) *Error {
	failure := &Error{
		Kind:    cmp.Or(kinds[given.Code()], ErrServer),
		Code:    given.Code(),
		Message: cmp.Or(given.Message(), given.Code().String()),
	}
	for _, detail := range given.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == "queuegate" {
				failure.Reason = detail.GetReason()
			}
		case *errdetails.BadRequest:
			for _, each := range detail.GetFieldViolations() {
				failure.Violations = append(failure.Violations, Violation{each.GetField(), each.GetDescription()})
			}
		case *errdetails.RetryInfo:
			failure.RetryAfter = detail.GetRetryDelay().AsDuration()
		}
	}
	if failure.Kind == ErrServerUnavailable {
		switch failure.Reason {
		case "RESOLVER_UNAVAILABLE":
			failure.Kind = ErrGroupsUnavailable
		case "NOT_CAUGHT_UP":
			failure.Kind = ErrNotCaughtUp
		}
	}
	return failure
}

// Messages for failed connections, by the wording of gRPC and crypto/tls, which report causes only as
// text. The first match applies.
var (
	tlsCauses = []struct{ sign, message string }{
		{"ALPN", noGRPC},
		{"no application protocol", noGRPC},
		{"x509: certificate is valid for", wrongName},
		{"x509: certificate is not valid for any names", wrongName},
		{"x509: cannot validate certificate for", wrongName},
		{"certificate has expired or is not yet valid", expired},
		{"failed to verify certificate", "the certificate of %s is not trusted: set TLS.CAFile to" +
			" a file of trusted CA certificates"},
		{"does not look like a TLS handshake", "%s does not speak TLS: connect without TLS, or to another port"},
		{"tls:", closedTLS},
		{"EOF", closedTLS},
		{"reset by peer", closedTLS},
		{"broken pipe", closedTLS},
	}
	plaintextCauses = []struct{ sign, message string }{
		{"looked like an HTTP/1.1 header", noGRPC},
		{"EOF", closedPlaintext},
		{"reset by peer", closedPlaintext},
		{"broken pipe", closedPlaintext},
		{"server preface", closedPlaintext},
	}
)

const (
	noGRPC = "%s is not a gRPC server: use an address from the server's `listen` (" + defaultAddress +
		" unless it is set), not the port for probes and metrics or a webhook"
	wrongName = "the certificate of %s is for a different name: set TLS.ServerName to the name in it"
	expired   = "the certificate of %s has expired, or is not valid yet: renew it on the server, or set" +
		" this machine's clock if that is wrong"
	closedTLS = "%s closed the connection: if it requires a client certificate, set" +
		" TLS.CertificateFile and TLS.KeyFile, and check that the certificate has not expired; if it" +
		" does not speak TLS, connect without it"
	closedPlaintext = "%s closed the connection: if it requires TLS, set Config.TLS or" +
		" QUEUEGATE_CA_FILE"
)

func unavailable(details, address string, encrypted, hasWorked bool) string {
	causes := plaintextCauses
	if encrypted {
		causes = tlsCauses
	}
	message := "no server at %s"
	for _, each := range causes {
		if strings.Contains(details, each.sign) {
			message = each.message
			break
		}
	}
	if hasWorked && (message == closedTLS || message == closedPlaintext) {
		message = "%s closed the connection"
	}
	return fmt.Sprintf(message+" (%s)", address, details)
}
