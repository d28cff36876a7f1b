package io.queuegate;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.queuegate.QueuegateException.Details;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Converts statuses to errors, whose messages say what to do. */
final class Failures {
  private static final String NO_GRPC =
      "%s is not a gRPC server: use an address from the server's `listen` (" + Address.DEFAULT
          + " unless it is set), not the port for probes and metrics or a webhook";
  private static final String UNTRUSTED =
      "the certificate of %s is not trusted: set the CA file (TlsConfig.withCaFile) to the authorities to"
          + " trust";
  private static final String EXPIRED =
      "the certificate of %s has expired, or is not valid yet: renew it on the server, or set this machine's"
          + " clock if that is wrong";
  private static final String WRONG_NAME =
      "the certificate of %s is for a different name: set the name in it with TlsConfig.withServerName";
  private static final String NO_TLS =
      "%s does not speak TLS: connect without TLS, or to another port";
  private static final String CLOSED_TLS =
      "%s closed the connection: if it requires a client certificate, set TlsConfig.withCertificate,"
          + " and check that the certificate has not expired; if it does not speak TLS, connect without it";
  private static final String CLOSED_PLAINTEXT =
      "%s closed the connection: if it requires TLS, set ClientConfig.tls or QUEUEGATE_CA_FILE";

  private static final String NOT_SETTINGS = "First received frame was not SETTINGS";
  private static final String HTTP_1 = "Unexpected HTTP/1.x request";

  /** Causes by the wording of gRPC, netty and the JDK, which report them only as text. The first applies. */
  private static final String[][] TLS_CAUSES = {
    {"ALPN", NO_GRPC},
    {"no_application_protocol", NO_GRPC},
    {"No subject alternative", WRONG_NAME},
    {"No name matching", WRONG_NAME},
    {"validity check failed", EXPIRED},
    {"PKIX path", UNTRUSTED},
    {"unable to find valid certification path", UNTRUSTED},
    {"not an SSL/TLS record", NO_TLS},
    {"Received fatal alert", CLOSED_TLS},
    {"closed", CLOSED_TLS},
    {"reset by peer", CLOSED_TLS},
    {"Broken pipe", CLOSED_TLS},
  };
  private static final String[][] PLAINTEXT_CAUSES = {
    {NOT_SETTINGS + ". Hex dump for first 5 bytes: 485454502f", NO_GRPC}, // HTTP/
    {HTTP_1, NO_GRPC},
    {NOT_SETTINGS, CLOSED_PLAINTEXT},
    {"closed", CLOSED_PLAINTEXT},
    {"reset by peer", CLOSED_PLAINTEXT},
    {"Broken pipe", CLOSED_PLAINTEXT},
  };

  private Failures() {}

  static QueuegateException.InvalidArgument invalid(List<Violation> violations) {
    Details details = new Details();
    details.code = Status.Code.INVALID_ARGUMENT;
    details.violations = violations;
    StringBuilder text = new StringBuilder();
    for (Violation each : violations) {
      text.append(text.length() == 0 ? "" : "; ").append(each);
    }
    details.message = text.toString();
    return new QueuegateException.InvalidArgument(details);
  }

  /**
   * @param owner what was closed: client or gate
   */
  static QueuegateException.Closed closed(String owner) {
    Details details = new Details();
    details.code = Status.Code.CANCELLED;
    details.message = "the " + owner + " is closed";
    return new QueuegateException.Closed(details);
  }

  static QueuegateException.ServerFailed contractViolated(String message) {
    Details details = new Details();
    details.code = Status.Code.INTERNAL;
    details.message = message;
    return new QueuegateException.ServerFailed(details);
  }

  static QueuegateException.MessageTooLarge tooLarge(String message) {
    Details details = new Details();
    details.code = Status.Code.RESOURCE_EXHAUSTED;
    details.message = message;
    return new QueuegateException.MessageTooLarge(details);
  }

  /** Converts the error of a question in a batch. */
  static QueuegateException ofItem(io.queuegate.v1.Status given) {
    Details details = new Details();
    details.withTrace = false;
    details.code = Status.fromCodeValue(given.getCode()).getCode();
    details.message = given.getMessage();
    read(given.getDetailsList(), details);
    return ofDetails(details);
  }

  /** Converts the error of a call or a stream. */
  static QueuegateException of(Throwable error, Connection connection) {
    if (error instanceof QueuegateException) {
      return (QueuegateException) error;
    }
    Status given = Status.fromThrowable(error);
    Details details = new Details();
    details.code = given.getCode();
    details.cause = error;
    String text = String.valueOf(given.getDescription() == null ? given.getCode() : given.getDescription());
    details.message = text;
    if (error instanceof StatusRuntimeException) {
      com.google.rpc.Status rich = StatusProto.fromThrowable(error);
      read(rich == null ? new ArrayList<>() : rich.getDetailsList(), details);
    }
    if (!details.reason.isEmpty()) {
      return ofDetails(details);
    }
    if (connection.isClosed()) {
      return closed(connection.owner());
    }
    String address = connection.address();
    String causes = textOf(given);
    if (details.code == Status.Code.INTERNAL && (causes.contains(NOT_SETTINGS) || causes.contains(HTTP_1))) {
      details.code = Status.Code.UNAVAILABLE; // grpc-java reports this failure to connect otherwise
    }
    switch (details.code) {
      case RESOURCE_EXHAUSTED:
        if (text.contains("maximum size " + Connection.MAX_RECEIVE_BYTES)) {
          return tooLarge("the response of " + address + " is too large: request less at a time (" + text + ")");
        } else if (text.contains("larger than max") || text.contains("exceeds maximum size")) {
          return tooLarge("the request is too large for " + address + ": send less at a time, or raise the"
              + " server's limits.max_message (" + text + ")");
        }
        break;
      case UNAVAILABLE:
        details.message = unavailable(causes, connection);
        break;
      case DEADLINE_EXCEEDED:
        details.message = "no response from " + address + " in time (" + text + ")";
        break;
      case CANCELLED:
        details.message = "the call to " + address + " was cancelled: " + text;
        if (Thread.currentThread().isInterrupted() || Context.current().isCancelled()) {
          return new QueuegateException.Cancelled(details);
        }
        break;
      case UNIMPLEMENTED:
        details.message =
            address + " does not implement this call; is it a queuegate server? (" + text + ")";
        break;
      default:
        break;
    }
    return ofDetails(details);
  }

  private static void read(List<Any> given, Details details) {
    try {
      for (Any each : given) {
        if (each.is(ErrorInfo.class)) {
          ErrorInfo info = each.unpack(ErrorInfo.class);
          details.reason = info.getDomain().equals("queuegate") ? info.getReason() : details.reason;
        } else if (each.is(BadRequest.class)) {
          details.violations = new ArrayList<>(details.violations);
          for (BadRequest.FieldViolation fault : each.unpack(BadRequest.class).getFieldViolationsList()) {
            details.violations.add(new Violation(fault.getField(), fault.getDescription()));
          }
        } else if (each.is(RetryInfo.class)) {
          com.google.protobuf.Duration delay = each.unpack(RetryInfo.class).getRetryDelay();
          details.retryAfter = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
        }
      }
    } catch (InvalidProtocolBufferException | ArithmeticException malformed) {
      // The code and the message are enough.
      details.message += " (with malformed details)";
    }
  }

  private static QueuegateException ofDetails(Details details) {
    switch (details.code) {
      case INVALID_ARGUMENT:
        return new QueuegateException.InvalidArgument(details);
      case NOT_FOUND:
        return new QueuegateException.UnknownPartition(details);
      case PERMISSION_DENIED:
      case UNAUTHENTICATED:
        return new QueuegateException.NotPermitted(details);
      case RESOURCE_EXHAUSTED:
        return new QueuegateException.Overloaded(details);
      case DEADLINE_EXCEEDED:
        return new QueuegateException.DeadlineExceeded(details);
      case UNAVAILABLE:
      case CANCELLED:
        if (details.reason.equals("RESOLVER_UNAVAILABLE")) {
          return new QueuegateException.GroupsUnavailable(details);
        }
        return new QueuegateException.ServerUnavailable(details);
      default:
        return new QueuegateException.ServerFailed(details);
    }
  }

  private static String unavailable(String text, Connection connection) {
    String message = "no server at %s";
    for (String[] each : connection.isEncrypted() ? TLS_CAUSES : PLAINTEXT_CAUSES) {
      if (text.contains(each[0])) {
        message = each[1];
        break;
      }
    }
    if (connection.hasWorked() && (message.equals(CLOSED_TLS) || message.equals(CLOSED_PLAINTEXT))) {
      message = "%s closed the connection";
    }
    return String.format(message, connection.address()) + " (" + text + ")";
  }

  /** Returns the description of a status and its causes in one line. */
  private static String textOf(Status status) {
    String description = status.getDescription() == null ? status.getCode().name() : status.getDescription();
    StringBuilder text = new StringBuilder(firstLine(description));
    Throwable cause = status.getCause();
    for (int depth = 0; cause != null && depth < 5; depth++, cause = cause.getCause()) {
      String message = cause.getMessage();
      String said = message == null ? cause.getClass().getSimpleName() : firstLine(message);
      if (text.indexOf(said) < 0) {
        text.append(": ").append(said);
      }
    }
    return text.toString();
  }

  private static String firstLine(String text) {
    return text.split("\n", 2)[0];
  }
}
