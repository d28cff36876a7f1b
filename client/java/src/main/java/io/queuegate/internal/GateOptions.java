package io.queuegate.internal;

import io.grpc.stub.ClientResponseObserver;
import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.v1.SyncRequest;
import io.queuegate.v1.SyncResponse;
import java.util.Collections;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;
import java.util.function.Consumer;

/** The options of a gate; common ones are documented at GateConfig. */
public final class GateOptions {
  /** Opens a stream, and passes it to the observer. */
  public Consumer<ClientResponseObserver<SyncRequest, SyncResponse>> open;

  /** Makes the next stream use a new connection, since the server has fallen silent on this one. */
  public Runnable leaveConnection = () -> {};

  /**
   * Describes the error that ended a stream; the second argument is whether the server has responded on
   * any stream.
   */
  public BiFunction<Throwable, Boolean, String> explain;

  /** The name of the gate. */
  public String name = "";

  /** The program and its version. */
  public String agent = "";

  /** The partitions to follow; all if empty. */
  public List<String> partitions = Collections.emptyList();

  /** How long to decide without a lease, in nanoseconds. */
  public long stale;

  /** Called after the gate has switched to another policy; null for none. */
  public Runnable onChange;

  /** Told each local decision before its caller; null for none. */
  public BiConsumer<Check, Decision> onDecision;

  /** Creates options without any values. */
  public GateOptions() {}
}
