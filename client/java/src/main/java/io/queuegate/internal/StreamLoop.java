package io.queuegate.internal;

import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.GateState;
import io.queuegate.LocalGate;
import io.queuegate.v1.SyncRequest;
import io.queuegate.v1.SyncResponse;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;

/**
 * A gate with its threads: one keeps a stream open, sends messages when they are due, and watches that
 * the server responds; another calls back after changes. Both are daemons, and no exception ends them.
 */
public final class StreamLoop implements AutoCloseable {
  /** The maximum size of a message on a stream, in bytes. It differs from that of calls. */
  public static final int RECEIVE_LIMIT = StreamErrors.RECEIVE_LIMIT;

  /** How long {@link #close} waits until the release of the lease is sent. */
  static final long RELEASE_TIME = TimeUnit.MILLISECONDS.toNanos(500);

  private static final long JOIN_MILLIS = 1_000;

  private final GateOptions options;
  private final GateCore core;
  private final Thread thread;
  private final AtomicBoolean signalled = new AtomicBoolean();
  private final Semaphore changed = new Semaphore(0);
  private final FailureLog failures = new FailureLog();
  private volatile long abandonAt; // when a closed gate stops waiting; meaningful once it is closed

  /**
   * Starts a gate, which connects in the background.
   *
   * @param options the options
   */
  public StreamLoop(GateOptions options) {
    this.options = options;
    core = new GateCore(options, Clock.ofMachine(), this::wake, this::noteChange);
    thread = daemon("queuegate-gate", this::run);
    try {
      thread.start();
      if (options.onChange != null) {
        daemon("queuegate-gate-changes", this::callBack).start();
      }
    } catch (RuntimeException | Error error) { // the system has no thread left
      close();
      throw error;
    }
  }

  private static Thread daemon(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    return thread;
  }

  /**
   * Decides without a call to the server.
   *
   * @param question the question
   * @return the decision; null if the question must be sent to the server
   */
  public Decision decide(Check question) {
    return core.decide(question);
  }

  /**
   * Returns a view of this gate's state.
   *
   * @return the view
   */
  public LocalGate local() {
    return core.view();
  }

  /**
   * Lists queues without a call to the server.
   *
   * @param question the question
   * @return the queues; null if the question must be sent to the server
   */
  public List<String> queues(Check question) {
    return core.queues(question);
  }

  /**
   * Returns whether this gate decides.
   *
   * @return the state
   */
  public GateState state() {
    return core.state();
  }

  /**
   * Returns the number of local decisions.
   *
   * @return the number
   */
  public long decided() {
    return core.decided();
  }

  /**
   * Returns how often the server has reset this gate.
   *
   * @return the number
   */
  public long resets() {
    return core.resets();
  }

  /** Releases the lease, closes the stream, and stops deciding. Returns within 2 s. */
  @Override
  public void close() {
    abandonAt = System.nanoTime() + RELEASE_TIME;
    if (!core.close()) {
      return;
    }
    changed.release();
    wake();
    if (Thread.currentThread() == thread) {
      return;
    }
    try {
      thread.join(JOIN_MILLIS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt(); // the thread ends on its own
    }
  }

  private void noteChange() {
    if (changed.availablePermits() == 0) { // one call covers several changes
      changed.release();
    }
  }

  /** Wakes the thread, without a lock, since decisions do so. */
  private void wake() {
    signalled.set(true);
    LockSupport.unpark(thread);
  }

  /** Waits until woken, at most for a time in nanoseconds. */
  private void sleep(long nanos) {
    long end = System.nanoTime() + nanos;
    for (long left = nanos; left > 0 && !signalled.get(); left = end - System.nanoTime()) {
      LockSupport.parkNanos(this, left);
      if (Thread.interrupted()) {
        break; // nobody has a reason to interrupt this thread
      }
    }
    signalled.set(false);
  }

  private void run() {
    while (!core.isClosed()) {
      long pause;
      try {
        pause = core.noteEnd(follow());
      } catch (Throwable fault) { // a lack of memory, for example
        pause = recover(fault);
      }
      long end = System.nanoTime() + pause;
      while (!core.isClosed() && end - System.nanoTime() > 0) {
        sleep(Math.min(end - System.nanoTime(), Liveness.LOOK_INTERVAL));
      }
    }
  }

  private long recover(Throwable fault) {
    try {
      core.abandon();
    } catch (Throwable again) {
      // The state has no lease that outlasts 5 s, and the next stream drops it.
    }
    noteFailure(fault);
    return GateCore.LONGEST_PAUSE;
  }

  private void noteFailure(Throwable fault) {
    failures.note("A gate has failed; it drops its state and connects again.", fault);
  }

  /** Opens a stream, applies its messages until it ends, and returns the error that ended it. */
  private Throwable follow() {
    Stream stream = new Stream(new Liveness(options.partitions));
    try {
      SyncRequest opening = core.opening(stream);
      options.open.accept(stream);
      stream.send(opening);
      return drive(stream);
    } finally {
      stream.abandon();
    }
  }

  private Throwable drive(Stream stream) {
    long nextLook = System.nanoTime() + Liveness.LOOK_INTERVAL;
    while (stream.end == null) {
      long now = System.nanoTime();
      if (core.isClosed() && now - abandonAt >= 0) {
        break;
      }
      if (now - nextLook >= 0) {
        nextLook = now + Liveness.LOOK_INTERVAL; // looks that a suspended process missed do not count
        core.refreshClock();
        String fault = stream.look();
        if (fault != null) {
          options.leaveConnection.run();
          return StreamErrors.silent(fault);
        }
      }
      long idle = nextLook - now;
      while (stream.isReady() && stream.end == null) {
        GateCore.Due due = core.due();
        for (SyncRequest request : due.requests) {
          stream.send(request);
        }
        if (due.requests.isEmpty()) { // else more may be due by now
          idle = Math.min(idle, due.idle);
          break;
        }
      }
      if (core.isClosed()) {
        idle = Math.min(idle, Math.max(abandonAt - System.nanoTime(), 1));
      }
      sleep(idle);
    }
    return stream.end == null ? StreamErrors.ended() : stream.end;
  }

  private void callBack() {
    while (!core.isClosed()) {
      changed.acquireUninterruptibly();
      changed.drainPermits();
      if (core.isClosed()) {
        return;
      }
      try {
        options.onChange.run();
      } catch (Throwable fault) {
        FailureLog.log("The function that a gate calls after changes has failed.", fault);
      }
    }
  }

  /** One stream. gRPC calls it in its own threads, one message at a time. */
  private final class Stream implements ClientResponseObserver<SyncRequest, SyncResponse> {
    private final Liveness liveness; // guarded by itself
    private ClientCallStreamObserver<SyncRequest> requests;
    volatile Throwable end; // why the stream has ended; null while it is open

    Stream(Liveness liveness) {
      this.liveness = liveness;
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<SyncRequest> requests) {
      this.requests = requests;
      requests.setOnReadyHandler(StreamLoop.this::wake);
    }

    boolean isReady() {
      return requests.isReady();
    }

    void send(SyncRequest request) {
      if (end == null) {
        requests.onNext(request);
      }
    }

    String look() {
      synchronized (liveness) {
        return liveness.look();
      }
    }

    /** Closes the stream, unless it has ended. */
    void abandon() {
      if (end == null) {
        end = StreamErrors.ended();
      }
      if (requests != null) {
        requests.cancel("the gate has left this stream", null);
      }
    }

    @Override
    public void onNext(SyncResponse response) {
      if (end != null) {
        return;
      }
      try {
        boolean lacksPolicy;
        synchronized (liveness) {
          liveness.note(response, core.hasPolicy());
          lacksPolicy = liveness.lacksPolicy();
        }
        core.receive(this, response, lacksPolicy);
      } catch (ProtocolFault fault) {
        core.dropEverything(this);
        finish(StreamErrors.protocolViolated(fault.getMessage()));
      } catch (Throwable fault) { // a lack of memory, for example
        core.dropEverything(this);
        noteFailure(fault);
        finish(StreamErrors.protocolViolated(String.valueOf(fault)));
      }
    }

    @Override
    public void onError(Throwable error) {
      if (StreamErrors.isTooLarge(error) && end == null) {
        core.dropEverything(this);
        finish(
            StreamErrors.protocolViolated(
                "a message has more than " + Bounds.MAX_MESSAGE_BYTES + " bytes"));
      } else {
        finish(error);
      }
    }

    @Override
    public void onCompleted() {
      finish(StreamErrors.ended());
    }

    private void finish(Throwable error) {
      if (end == null) {
        end = error;
      }
      wake();
    }
  }
}
