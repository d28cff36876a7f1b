package io.queuegate;

import io.grpc.CallOptions;
import io.grpc.Deadline;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.queuegate.v1.AccessServiceGrpc;
import io.queuegate.v1.BatchCheckQueueAccessRequest;
import io.queuegate.v1.CheckQueueAccessRequest;
import io.queuegate.v1.ListQueuesRequest;
import io.queuegate.v1.ListQueuesResponse;
import io.queuegate.v1.ResolveUserGroupsRequest;
import io.queuegate.v1.ResolveUserGroupsResponse;
import io.queuegate.v1.UserGroupServiceGrpc;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A client of a queuegate server. Threads should share a client, since all its calls use a single
 * connection, which is opened on the first call, and reopened if it is lost or three calls in a row get no
 * answer in time.
 *
 * <p>Every call has a time limit, and throws a {@link QueuegateException} if there is no answer, which is
 * not a denial. It ends at once if its thread is interrupted, or its {@link io.grpc.Context} cancelled.
 */
public final class Client implements AutoCloseable {
  private static final int PAGE_SIZE = 10_000;

  private final Connection connection;
  private final Duration timeout;

  private Client(Connection connection, Duration timeout) {
    this.connection = connection;
    this.timeout = timeout;
  }

  /**
   * Creates a client, which connects on the first call.
   *
   * @param config the configuration
   * @return the client
   * @throws IllegalArgumentException if a setting is invalid or a file cannot be read; the message names
   *     the setting
   */
  public static Client connect(ClientConfig config) {
    return new Client(new Connection(config, System::getenv), config.timeout);
  }

  Connection connection() {
    return connection;
  }

  /**
   * Returns a client with another time limit for every call, on the same connection. Close only one of
   * them.
   *
   * @param timeout positive, and at most a day
   * @return the client
   */
  public Client within(Duration timeout) {
    ClientConfig.checkTimeout(timeout);
    return new Client(connection, timeout);
  }

  /** Closes the connection. Calls in progress and later ones throw {@link QueuegateException.Closed}. */
  @Override
  public void close() {
    connection.close();
  }

  /**
   * Checks whether a user may use a queue.
   *
   * @param question the question
   * @return the decision
   * @throws QueuegateException if no decision is available
   */
  public Decision check(Check question) {
    Requests.faults(question).raise();
    return Batches.decision(
        ask(AccessServiceGrpc.getCheckQueueAccessMethod(), Requests.request(question), limit()));
  }

  /**
   * Checks many at once. A request contains up to 4 MiB: 10 000 checks, or 20 000 that share a partition and
   * an access and repeat users and queues. If several requests are needed, each is evaluated under a single
   * policy revision.
   *
   * @param questions the questions
   * @return the results, in the order of the questions
   * @throws QueuegateException if a question is invalid, in which case nothing is sent, or a request fails
   */
  public List<Result> checkMany(List<Check> questions) {
    Requests.validateAll(questions);
    CallOptions limit = limit();
    Result[] results = new Result[questions.size()];
    checkColumns(questions, results, limit);
    List<Integer> rest = new ArrayList<>();
    List<CheckQueueAccessRequest> requests = new ArrayList<>();
    for (int i = 0; i < results.length; i++) {
      if (results[i] == null) {
        rest.add(i);
        requests.add(Requests.request(questions.get(i)));
      }
    }
    List<Result> others =
        Batches.ask(
            requests,
            rest::get,
            batch ->
                Batches.ofQueues(
                    ask(
                            AccessServiceGrpc.getBatchCheckQueueAccessMethod(),
                            BatchCheckQueueAccessRequest.newBuilder().addAllChecks(batch).build(),
                            limit)
                        .getResultsList(),
                    batch.size()));
    for (int i = 0; i < others.size(); i++) {
      results[rest.get(i)] = others.get(i);
    }
    return new ArrayList<>(Arrays.asList(results));
  }

  /** Stores the results of the checks that are worth columns, unless the server does not know columns. */
  private void checkColumns(List<Check> questions, Result[] results, CallOptions limit) {
    if (!connection.knowsColumns) {
      return;
    }
    try {
      for (Columns each : Columns.of(questions)) {
        each.read(
            ask(AccessServiceGrpc.getCheckQueueAccessColumnsMethod(), each.request, limit), results);
      }
    } catch (QueuegateException error) {
      if (error.code() != Status.Code.UNIMPLEMENTED) {
        throw error;
      }
      connection.knowsColumns = false; // an older server
    }
  }

  /**
   * Lists the configured queues that a user may use.
   *
   * @param question the user and the access; its queue limits the list to this queue and the queues below
   *     it, and if it is empty, all are listed
   * @return the full paths, sorted
   * @throws QueuegateException if no list is available
   */
  public List<String> listQueues(Check question) {
    Texts.Faults faults = Requests.questionFaults(question);
    faults.optional("prefix", question.queue());
    faults.raise();
    ListQueuesRequest.Builder request =
        ListQueuesRequest.newBuilder()
            .setUser(Requests.user(question))
            .setPartition(question.partition())
            .setAccess(Requests.access(question.access()))
            .setPrefix(question.queue())
            .setPageSize(PAGE_SIZE)
            .setRealUser(question.realUser());
    CallOptions limit = limit();
    List<String> queues = new ArrayList<>();
    String token;
    do {
      token = request.getPageToken();
      ListQueuesResponse page = ask(AccessServiceGrpc.getListQueuesMethod(), request.build(), limit);
      queues.addAll(page.getQueuesList());
      request.setPageToken(page.getNextPageToken());
      if (!token.isEmpty() && request.getPageToken().equals(token)) {
        throw Failures.contractViolated("the server returned the same page token twice");
      }
    } while (!request.getPageToken().isEmpty());
    return queues;
  }

  /**
   * Resolves a user's groups, as a check does. An unknown user or an unavailable resolver is an outcome
   * rather than an error.
   *
   * @param user the name of the user
   * @param partition the partition whose resolver is used; empty for {@code default}
   * @return the groups and their origin
   * @throws QueuegateException if the server does not answer
   */
  public ResolveUserGroupsResponse resolve(String user, String partition) {
    Texts.Faults faults = new Texts.Faults();
    faults.required("user", user);
    faults.optional("partition", partition);
    faults.raise();
    ResolveUserGroupsRequest request =
        ResolveUserGroupsRequest.newBuilder().setUser(user).setPartition(partition).build();
    return ask(UserGroupServiceGrpc.getResolveUserGroupsMethod(), request, limit());
  }

  <Q, R> R ask(MethodDescriptor<Q, R> method, Q request, CallOptions limit) {
    return connection.call(method, limit, request);
  }

  /** Returns the options of a call or of several that share the time limit. */
  CallOptions limit() {
    return CallOptions.DEFAULT.withDeadline(
        Deadline.after(Math.max(timeout.toMillis(), 1), TimeUnit.MILLISECONDS));
  }
}
