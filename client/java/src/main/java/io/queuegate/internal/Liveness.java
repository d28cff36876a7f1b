package io.queuegate.internal;

import io.queuegate.v1.SyncResponse;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * Detects a server that is silent, or sends no policy. It counts looks rather than time, because looks are
 * skipped while the process is suspended, and messages from the server may be unread. Not safe for
 * concurrent use.
 */
final class Liveness {
  /**
   * The time without a pong or a policy after which a stream is dead. It is shorter than a lease, so that
   * another stream can be opened before the lease expires.
   */
  static final long SILENCE = TimeUnit.MILLISECONDS.toNanos(3_000);

  /** The maximum number of consecutive looks without progress. */
  static final int MAX_SILENT_LOOKS = 6;

  static final long LOOK_INTERVAL = SILENCE / MAX_SILENT_LOOKS;

  /**
   * The maximum number of consecutive looks without a pong, since a server that sends policies forever is
   * useless.
   */
  static final int MAX_UNANSWERED_LOOKS = (int) (Bounds.MAX_TRANSFER / LOOK_INTERVAL);

  private final List<String> named; // the partitions to follow; all if empty
  private final Set<String> promised = new HashSet<>(); // partitions that the server has
  private int silentLooks;
  private int unansweredLooks;
  private boolean lacksPolicy;

  Liveness(List<String> named) {
    this.named = named;
  }

  /**
   * Returns whether the last pong preceded a complete policy that the server has for this gate. Such
   * pongs are not progress.
   */
  boolean lacksPolicy() {
    return lacksPolicy;
  }

  /** Records a message from the server. {@code hasPolicy} is whether this gate has a confirmed policy. */
  void note(SyncResponse response, boolean hasPolicy) {
    switch (response.getMessageCase()) {
      case OPENED:
        promised.clear();
        promised.addAll(named);
        promised.retainAll(new HashSet<>(response.getOpened().getPartitionsList()));
        silentLooks = 0;
        break;
      case POLICY:
        if (response.getPolicy().getRemoved()) {
          promised.remove(response.getPolicy().getPartition());
        }
        silentLooks = 0;
        break;
      case PONG:
        lacksPolicy = (named.isEmpty() || !promised.isEmpty()) && !hasPolicy;
        if (!lacksPolicy) {
          silentLooks = 0;
          unansweredLooks = 0;
        }
        break;
      default:
        break;
    }
  }

  /** Returns why the stream is dead; null if it is alive. Called every {@link #LOOK_INTERVAL}. */
  String look() {
    silentLooks++;
    unansweredLooks++;
    long length;
    if (unansweredLooks >= MAX_UNANSWERED_LOOKS) {
      length = Bounds.MAX_TRANSFER;
    } else if (silentLooks >= MAX_SILENT_LOOKS) {
      length = SILENCE;
    } else {
      return null;
    }
    String seconds = TimeUnit.NANOSECONDS.toSeconds(length) + " s";
    return lacksPolicy
        ? "the server responds to pings but has sent no complete policy for " + seconds
        : "the server has not responded to a ping for " + seconds;
  }
}
