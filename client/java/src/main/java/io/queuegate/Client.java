package io.queuegate;

import io.grpc.CallOptions;
import io.grpc.Status;
import io.queuegate.v1.AccessServiceGrpc;
import io.queuegate.v1.BatchCheckApplicationAccessRequest;
import io.queuegate.v1.BatchCheckQueueAccessRequest;
import io.queuegate.v1.CheckApplicationAccessRequest;
import io.queuegate.v1.CheckQueueAccessRequest;
import io.queuegate.v1.ExplainApplicationAccessRequest;
import io.queuegate.v1.ExplainApplicationAccessResponse;
import io.queuegate.v1.ExplainQueueAccessRequest;
import io.queuegate.v1.ExplainQueueAccessResponse;
import io.queuegate.v1.ListQueuesRequest;
import io.queuegate.v1.ListQueuesResponse;
import io.queuegate.v1.ListUsersRequest;
import io.queuegate.v1.ListUsersResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;

/**
 * A client of a queuegate server. Threads should share a client, since all its calls use a single
 * connection, which is opened on the first call, and reopened if it is lost or three calls in a row get no
 * answer in time.
 *
 * <p>Every call has a time limit, and throws a {@link QueuegateException} if there is no answer, which is
 * not a denial. It ends at once if its thread is interrupted, or its {@link io.grpc.Context} cancelled.
 * Explanations, lists of users, policies and other reports are messages of the contract.
 */
public final class Client extends ServerCalls implements AutoCloseable {
  private static final int PAGE_SIZE = 10_000;

  private Client(Connection connection, Duration timeout, boolean isExplicit) {
    super(connection, timeout, isExplicit);
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
    return new Client(new Connection(config, System::getenv), config.timeout, false);
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
    return new Client(connection, timeout, true);
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
        ask(AccessServiceGrpc.getCheckQueueAccessMethod(), Requests.request(question), limit(timeout)));
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
    CallOptions limit = limit(timeout);
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
   * Checks, and returns the evaluated ACLs and the origin of the groups as well.
   *
   * @param question the question, without {@link Check#withAtLeast}
   * @return the explanation
   * @throws QueuegateException if no decision is available
   */
  public ExplainQueueAccessResponse explain(Check question) {
    Texts.Faults faults = Requests.faults(question);
    if (question.atLeast() != null) {
      faults.add("at_least", "is only for check and checkMany");
    }
    faults.raise();
    ExplainQueueAccessRequest request =
        ExplainQueueAccessRequest.newBuilder()
            .setUser(Requests.user(question))
            .setPartition(question.partition())
            .setQueue(question.queue())
            .setAccess(Requests.access(question.access()))
            .setRealUser(question.realUser())
            .build();
    ExplainQueueAccessResponse response =
        ask(AccessServiceGrpc.getExplainQueueAccessMethod(), request, limit(timeout));
    Batches.decision(response.getDecision());
    return response;
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
    if (question.atLeast() != null) {
      faults.add("at_least", "is only for check and checkMany");
    }
    faults.raise();
    ListQueuesRequest.Builder request =
        ListQueuesRequest.newBuilder()
            .setUser(Requests.user(question))
            .setPartition(question.partition())
            .setAccess(Requests.access(question.access()))
            .setPrefix(question.queue())
            .setPageSize(PAGE_SIZE)
            .setRealUser(question.realUser());
    CallOptions limit = limit(timeout);
    List<String> queues = new ArrayList<>();
    String token;
    do {
      token = request.getPageToken();
      ListQueuesResponse page = ask(AccessServiceGrpc.getListQueuesMethod(), request.build(), limit);
      queues.addAll(page.getQueuesList());
      request.setPageToken(nextToken(page.getNextPageToken(), token));
    } while (!request.getPageToken().isEmpty());
    return queues;
  }

  /**
   * Lists the users who may use a queue, page by page. If a page is not complete, users may be missing. If
   * the policy changes between two pages, the error is {@link QueuegateException.InvalidArgument}; start
   * over. Each page has 30 s.
   *
   * @param queue the full path of the queue
   * @param partition the name of the partition; empty for {@code default}
   * @param access the kind of access
   * @return the pages, requested one by one; an iterator throws {@link QueuegateException}
   */
  public Iterable<ListUsersResponse> listUsers(String queue, String partition, Access access) {
    Texts.Faults faults = new Texts.Faults();
    faults.required("queue", queue);
    faults.optional("partition", partition);
    faults.raise();
    ListUsersRequest first =
        ListUsersRequest.newBuilder()
            .setQueue(queue)
            .setPartition(partition)
            .setAccess(Requests.access(access))
            .build();
    return () -> new UserPages(first);
  }

  /**
   * Checks whether a user may view, modify or move an application.
   *
   * @param question the question, as the contract defines it
   * @return the decision
   * @throws QueuegateException if no decision is available
   */
  public Decision checkApplication(CheckApplicationAccessRequest question) {
    return Batches.decision(
        ask(AccessServiceGrpc.getCheckApplicationAccessMethod(), question, limit(timeout)));
  }

  /**
   * Checks many applications at once, as {@link #checkMany} does for queues.
   *
   * @param questions the questions, as the contract defines them
   * @return the results, in the order of the questions
   * @throws QueuegateException if a request fails
   */
  public List<Result> checkApplications(List<CheckApplicationAccessRequest> questions) {
    CallOptions limit = limit(timeout);
    return Batches.ask(
        questions,
        position -> position,
        batch ->
            Batches.ofApplications(
                ask(
                        AccessServiceGrpc.getBatchCheckApplicationAccessMethod(),
                        BatchCheckApplicationAccessRequest.newBuilder().addAllChecks(batch).build(),
                        limit)
                    .getResultsList(),
                batch.size()));
  }

  /**
   * Checks an application, and returns the evaluated lists as well.
   *
   * @param question the question, as the contract defines it
   * @return the explanation
   * @throws QueuegateException if no decision is available
   */
  public ExplainApplicationAccessResponse explainApplication(CheckApplicationAccessRequest question) {
    ExplainApplicationAccessResponse response =
        ask(
            AccessServiceGrpc.getExplainApplicationAccessMethod(),
            ExplainApplicationAccessRequest.newBuilder().setCheck(question).build(),
            limit(timeout));
    Batches.decision(response.getDecision());
    return response;
  }

  private static String nextToken(String next, String last) {
    if (!next.isEmpty() && next.equals(last)) {
      throw Failures.contractViolated("the server returned the same page token twice");
    }
    return next;
  }

  private final class UserPages implements Iterator<ListUsersResponse> {
    private ListUsersRequest next;

    UserPages(ListUsersRequest first) {
      next = first;
    }

    @Override
    public boolean hasNext() {
      return next != null;
    }

    @Override
    public ListUsersResponse next() {
      if (next == null) {
        throw new NoSuchElementException();
      }
      ListUsersRequest asked = next;
      next = null; // no page follows an error
      ListUsersResponse page =
          ask(AccessServiceGrpc.getListUsersMethod(), asked, limit(POLICY_TIMEOUT));
      String token = nextToken(page.getNextPageToken(), asked.getPageToken());
      next = token.isEmpty() ? null : asked.toBuilder().setPageToken(token).build();
      return page;
    }
  }
}
