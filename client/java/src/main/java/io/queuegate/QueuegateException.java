package io.queuegate;

import io.grpc.Status;
import java.time.Duration;
import java.util.Collections;
import java.util.List;

/**
 * A failed call. A denial is a decision, not an error, and an error never grants access.
 *
 * <p>The classes below say what to do: a {@link RequestRejected} fails again unless the request, the
 * caller's rights or the policy change; after an {@link Unavailable}, a retry may succeed; a {@link
 * ServerFailed} is a fault of the server.
 */
public class QueuegateException extends RuntimeException {
  private final transient Status.Code code;
  /** The server's machine-readable reason; empty if it gave none. */
  private final String reason;
  private final transient Duration retryAfter;
  private final transient List<Violation> violations;

  QueuegateException(Details details) {
    super(details.message, details.cause, true, details.withTrace);
    code = details.code;
    reason = details.reason;
    retryAfter = details.retryAfter;
    violations = Collections.unmodifiableList(details.violations);
  }

  /**
   * Returns the gRPC status code.
   *
   * @return the code
   */
  public Status.Code code() {
    return code;
  }

  /**
   * Returns the server's machine-readable reason: a value of the contract's ErrorReason without its
   * prefix, such as {@code RESOLVER_UNAVAILABLE}.
   *
   * @return the reason; empty if the server gave none, for example because it could not be reached
   */
  public String reason() {
    return reason;
  }

  /**
   * Returns the delay before a retry that the server suggests.
   *
   * @return the delay; zero if none
   */
  public Duration retryAfter() {
    return retryAfter;
  }

  /**
   * Returns the rejected fields.
   *
   * @return an unmodifiable list
   */
  public List<Violation> violations() {
    return violations;
  }

  /** The parts of an error. */
  static final class Details {
    Status.Code code = Status.Code.UNKNOWN;
    String reason = "";
    String message = "";
    Duration retryAfter = Duration.ZERO;
    List<Violation> violations = Collections.emptyList();
    Throwable cause;
    /** False for errors of batches, where thousands may fail at once. */
    boolean withTrace = true;
  }

  /** A retry cannot succeed unless the request, the caller's rights or the policy change. */
  public static class RequestRejected extends QueuegateException {
    RequestRejected(Details details) {
      super(details);
    }
  }

  /** A field of the request is missing or malformed; see {@link #violations()}. */
  public static final class InvalidArgument extends RequestRejected {
    InvalidArgument(Details details) {
      super(details);
    }
  }

  /** The policy has no such partition. */
  public static final class UnknownPartition extends RequestRejected {
    UnknownPartition(Details details) {
      super(details);
    }
  }

  /**
   * The caller is not authenticated (the code is UNAUTHENTICATED) or lacks the required role
   * (PERMISSION_DENIED).
   */
  public static final class NotPermitted extends RequestRejected {
    NotPermitted(Details details) {
      super(details);
    }
  }

  /**
   * The request exceeds the server's {@code limits.max_message}, or the response exceeds the client's
   * limit of 64 MiB. Split the request.
   */
  public static final class MessageTooLarge extends RequestRejected {
    MessageTooLarge(Details details) {
      super(details);
    }
  }

  /** No decision is available now. A retry may succeed, see {@link #retryAfter()}. */
  public static class Unavailable extends QueuegateException {
    Unavailable(Details details) {
      super(details);
    }
  }

  /**
   * The server cannot be reached, has no policy yet (the reason is NOT_READY) or is shutting down
   * (DRAINING).
   */
  public static class ServerUnavailable extends Unavailable {
    ServerUnavailable(Details details) {
      super(details);
    }
  }

  /** The decision depends on the user's groups, which the server could not resolve. */
  public static final class GroupsUnavailable extends Unavailable {
    GroupsUnavailable(Details details) {
      super(details);
    }
  }

  /** The server is overloaded, or the caller exceeded its rate limit (the reason is RATE_LIMITED). */
  public static final class Overloaded extends Unavailable {
    Overloaded(Details details) {
      super(details);
    }
  }

  /** The call exceeded its time limit. */
  public static final class DeadlineExceeded extends Unavailable {
    DeadlineExceeded(Details details) {
      super(details);
    }
  }

  /**
   * The thread was interrupted, and still is; or the context of the call ({@link io.grpc.Context}) was
   * cancelled.
   */
  public static final class Cancelled extends Unavailable {
    Cancelled(Details details) {
      super(details);
    }
  }

  /** The client or gate was closed before or during the call; the message says which. */
  public static final class Closed extends Unavailable {
    Closed(Details details) {
      super(details);
    }
  }

  /**
   * The server failed (the message contains the ID of its log entry), its response violates the
   * contract, or it is not a queuegate server.
   */
  public static final class ServerFailed extends QueuegateException {
    ServerFailed(Details details) {
      super(details);
    }
  }
}
