package io.queuegate.internal;

import io.grpc.Status;
import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.GateState;
import io.queuegate.v1.SyncRequest;
import io.queuegate.v1.SyncResponse;
import io.queuegate.v1.SyncWant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * A gate's copy, decisions and protocol, without its streams: {@link StreamLoop} passes messages in and
 * out. Decisions take no lock; messages are processed under the lock of this object.
 */
final class GateCore {
  /** The initial pause before reconnecting, doubled up to {@link #LONGEST_PAUSE}. */
  static final long FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(100);

  static final long LONGEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(2_000);

  /** How long a gate that can send nothing waits until it looks again. */
  private static final long IDLE = TimeUnit.MILLISECONDS.toNanos(200);

  private final GateOptions options;
  private final Clock clock;
  private final Replica replica;
  private final Wants wants;
  private final Session session;
  private final Decider decider;
  private final LocalView view;
  private final Runnable wake;
  private volatile boolean isClosed;
  private volatile long resets;

  // Guarded by this object, like the session.
  private final StreamLog log;
  private Object stream; // the one whose messages count; null if none
  private long nextPing;
  private SyncRequest reply; // the acknowledgment to send; null if none
  private long pause = FIRST_PAUSE;
  private int pongs; // on this stream
  private boolean hasAnswered; // on any stream

  /** Messages that are due, and the time until the next ones unless woken earlier. */
  static final class Due {
    final List<SyncRequest> requests = new ArrayList<>();
    long idle;
  }

  GateCore(GateOptions options, Clock clock, Runnable wake, Runnable onPolicy) {
    this.options = options;
    this.clock = clock;
    this.wake = wake;
    replica = new Replica(!options.partitions.isEmpty(), onPolicy);
    wants = new Wants(wake);
    session = new Session(replica, wants, options.name, options.partitions, clock.error());
    decider = new Decider(replica, session, wants, options.onDecision, clock::now);
    view = new LocalView(replica, wants, decider, clock::now);
    session.introduce(options.stale, options.agent, view::counts);
    log = new StreamLog(options.partitions);
  }

  LocalView view() {
    return view;
  }

  Decision decide(Check question) {
    return decider.decide(question);
  }

  List<String> queues(Check question) {
    return decider.queues(question);
  }

  long decided() {
    return decider.decided();
  }

  long resets() {
    return resets;
  }

  GateState state() {
    Replica.State now = replica.state();
    if (isClosed) {
      return GateState.CLOSED;
    } else if (now.policies.isEmpty()) {
      return GateState.CONNECTING;
    } else if (!now.rights.decide) {
      return GateState.FORBIDDEN;
    }
    return clock.now() < session.leaseUntil() ? GateState.LIVE : GateState.EXPIRED;
  }

  boolean hasPolicy() {
    return !replica.state().policies.isEmpty();
  }

  boolean isClosed() {
    return isClosed;
  }

  /** Stops deciding, and releases the lease with the next message. Returns false if already closed. */
  synchronized boolean close() {
    if (isClosed) {
      return false;
    }
    isClosed = true;
    reply = session.close(clock.now());
    session.reset(Collections.<String>emptyList());
    return true;
  }

  /** Reads the clock, so that decisions seldom have to read the slow one. */
  void refreshClock() {
    clock.now();
  }

  /** Returns the first message of a new stream. From now on, only its messages count. */
  synchronized SyncRequest opening(Object stream) {
    this.stream = stream;
    if (!isClosed) {
      reply = null;
    }
    pongs = 0;
    nextPing = Clock.NEVER;
    return session.open();
  }

  /** Returns the messages to send now. */
  synchronized Due due() {
    Due due = new Due();
    if (reply != null) {
      due.requests.add(reply);
      reply = null;
    }
    long now = clock.now();
    if (isClosed || now >= Clock.FOREVER) { // without a readable clock, nothing can be measured
      due.idle = IDLE;
      return due;
    }
    if (now >= nextPing) {
      nextPing = now + session.pingInterval();
      due.requests.add(session.ping(now));
    }
    for (Map.Entry<String, List<String>> each : wants.take(now).entrySet()) {
      SyncWant want =
          SyncWant.newBuilder().setPartition(each.getKey()).addAllUsers(each.getValue()).build();
      due.requests.add(SyncRequest.newBuilder().setWant(want).build());
    }
    due.idle = nextPing - now;
    return due;
  }

  /**
   * Applies a message from the server, unless it is of an earlier stream. {@code lacksPolicy} is whether a
   * pong preceded any policy.
   */
  synchronized void receive(Object from, SyncResponse response, boolean lacksPolicy) throws ProtocolFault {
    if (isClosed || from != stream) {
      return;
    }
    if (response.hasOpened()) {
      decider.setGrace(0);
      hasAnswered = true;
      log.opening(response.getOpened());
      view.noteOpened(response.getOpened());
      if (!response.getOpened().getResumed()) {
        noteReset();
      }
    }
    if (response.hasPong() && !lacksPolicy) {
      pause = FIRST_PAUSE;
      // After a single pong, the next message may still break the stream.
      if (++pongs > 1) {
        log.recovery();
      }
    }
    SyncRequest answer = session.receive(response, clock.now());
    if (response.hasPong() && !lacksPolicy) {
      view.notePong();
    }
    if (answer != null && (reply == null || !reply.hasRelease())) { // nothing may replace a release
      reply = answer;
      wake.run();
    }
  }

  /** Drops all state after a fault of the server on a stream, unless it is an earlier one. */
  synchronized void dropEverything(Object from) {
    if (from == stream) {
      noteReset();
      session.dropEverything();
    }
  }

  /** Drops all state after a fault of this process. */
  synchronized void abandon() {
    stream = null;
    noteReset();
    session.dropEverything();
    decider.setGrace(0);
  }

  /** Counts a reset if policies in use are about to be dropped. */
  private void noteReset() {
    if (hasPolicy()) {
      resets++; // under the lock
    }
  }

  /** Handles the end of a stream, and returns the time to wait before reconnecting. */
  synchronized long noteEnd(Throwable end) {
    stream = null;
    if (isClosed) {
      return 0;
    }
    Status status = Status.fromThrowable(end);
    view.noteEnd(status.getCode());
    long grace = 0;
    switch (status.getCode()) {
      case UNAVAILABLE:
      case CANCELLED: // the server is unreachable or shutting down
        grace = options.stale;
        break;
      case PERMISSION_DENIED:
      case UNAUTHENTICATED:
      case UNIMPLEMENTED:
        session.reset(Collections.<String>emptyList());
        break;
      default:
        break;
    }
    decider.setGrace(grace); // before all that takes time
    boolean isOwn = end instanceof StreamErrors.OwnEnd;
    log.end(isOwn ? status.getDescription() : options.explain.apply(end, hasAnswered));
    long last = pause;
    pause = Math.min(2 * last, LONGEST_PAUSE);
    long jittered = last / 2 + ThreadLocalRandom.current().nextLong(last / 2);
    return Math.max(jittered, Math.min(StreamErrors.retryDelay(end), Bounds.MAX_RETRY));
  }
}
