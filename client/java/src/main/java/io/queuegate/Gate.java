package io.queuegate;

import io.queuegate.internal.GateOptions;
import io.queuegate.internal.StreamLoop;
import io.queuegate.v1.SyncServiceGrpc;
import java.lang.management.ManagementFactory;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/**
 * Decides in this process, from a copy of the policy kept current by the server. Its caller needs the
 * {@code sync} role. Threads should share a gate: a local decision takes no lock.
 *
 * <p>It sends a check to the server if it lacks the user's groups, and sends every check while it has no
 * lease. Leases guarantee that no gate decides from old state once an invalidation or a reload that waits
 * has returned. A lease expires at most 5 s after the last message from the server.
 *
 * <p>{@link #check}, {@link #checkMany} and {@link #listQueues} decide locally if they can, and ask the
 * server otherwise; {@link #checkLocally} never asks. For other calls, use {@link #client()}.
 */
public final class Gate implements AutoCloseable {
  private final Client client;
  private final StreamLoop loop;

  private Gate(Client client, StreamLoop loop) {
    this.client = client;
    this.loop = loop;
  }

  /**
   * Opens a gate, which connects in the background. Close it; otherwise it runs until the JVM ends.
   *
   * @param config the configuration
   * @return the gate
   * @throws IllegalArgumentException if a setting is invalid or a file cannot be read; the message names
   *     the setting
   */
  public static Gate open(GateConfig config) {
    Client client = Client.connect(config.client);
    client.connection().belongsToGate();
    Connection connection = client.connection();
    GateOptions options = new GateOptions();
    options.open =
        observer -> {
          connection.reconnect();
          SyncServiceGrpc.newStub(connection.channel())
              .withMaxInboundMessageSize(StreamLoop.RECEIVE_LIMIT)
              .sync(observer);
        };
    options.leaveConnection = connection::leave;
    options.explain =
        (error, hasAnswered) -> {
          if (hasAnswered) {
            connection.noteWorked();
          }
          return Failures.of(error, connection).getMessage();
        };
    // In HotSpot, PID@HOST.
    options.name = config.name.isEmpty() ? ManagementFactory.getRuntimeMXBean().getName() : config.name;
    options.agent = config.agent;
    options.partitions = config.partitions;
    options.stale = config.stale.toNanos();
    options.onChange = config.onChange;
    DecisionListener listener = config.onDecision;
    if (listener != null) {
      options.onDecision =
          (question, decision) ->
              listener.decided(new DecisionRecord(options.name, Instant.now(), question, decision));
    }
    try {
      return new Gate(client, new StreamLoop(options));
    } catch (RuntimeException | Error error) { // the system has no thread left
      client.close();
      throw error;
    }
  }

  /**
   * Returns the gate's client, which sends all calls to the server. Close the gate, not its client.
   *
   * @return the client
   */
  public Client client() {
    return client;
  }

  /**
   * Checks whether a user may use a queue, as {@link Client#check} does. Time limits and interrupts apply
   * only to calls to the server.
   *
   * @param question the question
   * @return the decision
   * @throws QueuegateException if the server must be asked, and no decision is available
   */
  public Decision check(Check question) {
    Decision decision = loop.decide(question);
    return decision == null ? client.check(question) : decision;
  }

  /**
   * Checks whether a user may use a queue, without a call to the server: for threads that must not wait.
   * If the user's groups are missing, they are requested in the background for a later check.
   *
   * @param question the question
   * @return the decision; null if this gate cannot decide now, which is neither a grant nor a denial
   */
  public Decision checkLocally(Check question) {
    return loop.decide(question);
  }

  /**
   * Returns a view of this gate's state, for callers that must not wait.
   *
   * @return the same object for each call
   */
  public LocalGate local() {
    return loop.local();
  }

  /**
   * Checks many at once, as {@link Client#checkMany} does. Only checks that the gate cannot decide are
   * sent to the server.
   *
   * @param questions the questions
   * @return the results, in the order of the questions
   * @throws QueuegateException if a question is invalid, or a request to the server fails
   */
  public List<Result> checkMany(List<Check> questions) {
    Requests.validateAll(questions);
    List<Result> results = new ArrayList<>(questions.size());
    List<Integer> positions = new ArrayList<>();
    List<Check> rest = new ArrayList<>();
    for (int i = 0; i < questions.size(); i++) {
      Decision decision = loop.decide(questions.get(i));
      results.add(decision == null ? null : Result.of(decision));
      if (decision == null) {
        positions.add(i);
        rest.add(questions.get(i));
      }
    }
    List<Result> asked = client.checkMany(rest);
    for (int i = 0; i < asked.size(); i++) {
      results.set(positions.get(i), asked.get(i));
    }
    return results;
  }

  /**
   * Lists the configured queues that a user may use, as {@link Client#listQueues} does.
   *
   * @param question the user and the access; its queue limits the list to this queue and the queues below
   *     it, and if it is empty, all are listed
   * @return the full paths, sorted
   * @throws QueuegateException if the server must be asked, and no list is available
   */
  public List<String> listQueues(Check question) {
    List<String> queues = loop.queues(question);
    return queues == null ? client.listQueues(question) : queues;
  }

  /**
   * Returns whether the gate decides in this process.
   *
   * @return the state
   */
  public GateState state() {
    return loop.state();
  }

  /**
   * Returns the number of local decisions.
   *
   * @return the number since the gate was opened
   */
  public long decided() {
    return loop.decided();
  }

  /**
   * Returns how often the server has made the gate drop its lease and groups.
   *
   * @return the number since the gate was opened
   */
  public long resets() {
    return loop.resets();
  }

  /**
   * Releases the lease, so that no call waits for this gate, and closes the connection, within 2 s. Calls
   * in progress and later ones throw {@link QueuegateException.Closed}.
   */
  @Override
  public void close() {
    loop.close();
    client.close();
  }
}
