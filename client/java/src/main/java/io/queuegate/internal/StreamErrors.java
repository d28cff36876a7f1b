package io.queuegate.internal;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.concurrent.TimeUnit;

/** Reads the errors that end streams. */
final class StreamErrors {
  /**
   * gRPC's limit for messages on a stream. It differs from servers' limits, whose errors look the same.
   */
  static final int RECEIVE_LIMIT = Bounds.MAX_MESSAGE_BYTES + 1;

  /** The status of a stream with invalid messages. Servers do not use it. */
  private static final Status.Code PROTOCOL_VIOLATED = Status.Code.DATA_LOSS;

  private StreamErrors() {}

  static StatusRuntimeException protocolViolated(String fault) {
    return PROTOCOL_VIOLATED
        .toStatus()
        .withDescription("the server does not follow the protocol: " + fault)
        .asRuntimeException();
  }

  /** An end that gRPC did not report. Its description needs no explanation. */
  static final class OwnEnd extends StatusRuntimeException {
    private OwnEnd(Status status, String description) {
      super(status.withDescription(description));
    }
  }

  static OwnEnd silent(String fault) {
    return new OwnEnd(Status.UNAVAILABLE, fault);
  }

  static OwnEnd ended() {
    return new OwnEnd(Status.UNKNOWN, "the server closed it");
  }

  /** Returns whether the server has sent an oversized message. */
  static boolean isTooLarge(Throwable error) {
    Status status = Status.fromThrowable(error);
    return status.getCode() == Status.Code.RESOURCE_EXHAUSTED
        && String.valueOf(status.getDescription()).contains("maximum size " + RECEIVE_LIMIT);
  }

  /** Returns the time that the server requests before another stream, in nanoseconds; 0 if none. */
  static long retryDelay(Throwable error) {
    com.google.rpc.Status rich = StatusProto.fromThrowable(error);
    if (rich == null) {
      return 0;
    }
    try {
      for (Any each : rich.getDetailsList()) {
        if (each.is(RetryInfo.class)) {
          Duration delay = each.unpack(RetryInfo.class).getRetryDelay();
          long seconds = Math.max(0, Math.min(delay.getSeconds(), 3_600)); // far above the accepted delay
          return TimeUnit.SECONDS.toNanos(seconds) + Math.max(0, delay.getNanos());
        }
      }
    } catch (InvalidProtocolBufferException malformed) {
      return 0;
    }
    return 0;
  }
}
