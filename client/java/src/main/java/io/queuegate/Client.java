package io.queuegate;

import com.google.protobuf.Int32Value;
import com.google.protobuf.StringValue;
import io.grpc.CallOptions;
import io.grpc.Deadline;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.protobuf.ProtoUtils;
import io.queuegate.v1.AccessServiceGrpc;
import io.queuegate.v1.BatchCheckApplicationAccessRequest;
import io.queuegate.v1.BatchCheckQueueAccessRequest;
import io.queuegate.v1.CheckApplicationAccessRequest;
import io.queuegate.v1.CheckQueueAccessRequest;
import io.queuegate.v1.ExplainApplicationAccessRequest;
import io.queuegate.v1.ExplainApplicationAccessResponse;
import io.queuegate.v1.ExplainQueueAccessRequest;
import io.queuegate.v1.ExplainQueueAccessResponse;
import io.queuegate.v1.GetFleetRequest;
import io.queuegate.v1.GetFleetResponse;
import io.queuegate.v1.GetPolicyRequest;
import io.queuegate.v1.GetPolicyResponse;
import io.queuegate.v1.InvalidateUserGroupsRequest;
import io.queuegate.v1.InvalidateUserGroupsResponse;
import io.queuegate.v1.ListQueuesRequest;
import io.queuegate.v1.ListQueuesResponse;
import io.queuegate.v1.ListUsersRequest;
import io.queuegate.v1.ListUsersResponse;
import io.queuegate.v1.PolicyServiceGrpc;
import io.queuegate.v1.ReloadPolicyRequest;
import io.queuegate.v1.ReloadPolicyResponse;
import io.queuegate.v1.ResolveUserGroupsRequest;
import io.queuegate.v1.ResolveUserGroupsResponse;
import io.queuegate.v1.UserGroupServiceGrpc;
import io.queuegate.v1.ValidatePolicyRequest;
import io.queuegate.v1.ValidatePolicyResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * A client of a queuegate server. Threads should share a client, since all its calls use a single
 * connection, which is opened on the first call and reopened if lost.
 *
 * <p>Every call has a time limit, and throws a {@link QueuegateException} if there is no answer, which is
 * not a denial. It ends at once if its thread is interrupted, or its {@link io.grpc.Context} cancelled.
 * Explanations, lists of users, policies and other reports are messages of the contract.
 */
public final class Client implements AutoCloseable {
  private static final Duration POLICY_TIMEOUT = Duration.ofSeconds(30); // large configurations take seconds
  private static final Duration WAIT_TIMEOUT = Duration.ofSeconds(15); // gates have leases of seconds
  private static final int PAGE_SIZE = 10_000;
  private static final int MAX_USERS = 10_000;
  // Both messages have a single field, with these types and the number 1.
  private static final MethodDescriptor<StringValue, Int32Value> HEALTH =
      MethodDescriptor.<StringValue, Int32Value>newBuilder()
          .setType(MethodDescriptor.MethodType.UNARY)
          .setFullMethodName("grpc.health.v1.Health/Check")
          .setRequestMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance()))
          .setResponseMarshaller(ProtoUtils.marshaller(Int32Value.getDefaultInstance()))
          .build();

  private final Connection connection;
  private final Duration timeout;
  private final boolean isExplicit; // whether the time limit applies to all calls

  private Client(Connection connection, Duration timeout, boolean isExplicit) {
    this.connection = connection;
    this.timeout = timeout;
    this.isExplicit = isExplicit;
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
   * @throws QueuegateException if there is none
   */
  public Decision check(Check question) {
    Requests.faults(question).raise();
    return Batches.decision(
        ask(AccessServiceGrpc.getCheckQueueAccessMethod(), Requests.request(question), limit(timeout)));
  }

  /**
   * Checks many at once. A request contains up to 4 MiB or 10 000 checks. If several requests are needed,
   * each is evaluated under a single policy revision.
   *
   * @param questions the questions
   * @return the results, in the order of the questions
   * @throws QueuegateException if a question is invalid, in which case nothing is sent, or a request fails
   */
  public List<Result> checkMany(List<Check> questions) {
    Requests.validateAll(questions);
    List<CheckQueueAccessRequest> requests = new ArrayList<>(questions.size());
    for (Check each : questions) {
      requests.add(Requests.request(each));
    }
    CallOptions limit = limit(timeout);
    return Batches.ask(
        requests,
        batch ->
            Batches.ofQueues(
                ask(
                        AccessServiceGrpc.getBatchCheckQueueAccessMethod(),
                        BatchCheckQueueAccessRequest.newBuilder().addAllChecks(batch).build(),
                        limit)
                    .getResultsList(),
                batch.size()));
  }

  /**
   * Checks, and returns the evaluated ACLs and the origin of the groups as well.
   *
   * @param question the question, without {@link Check#withAtLeast}
   * @return the explanation
   * @throws QueuegateException if there is no decision
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
   * @throws QueuegateException if there is no list
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
   * @throws QueuegateException if there is none
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
   * @throws QueuegateException if there is no decision
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

  /**
   * Resolves a user's groups, as a check does. An unknown user or an unavailable resolver is an outcome
   * rather than an error.
   *
   * @param user the name of the user
   * @param partition the partition whose resolver is used; empty for {@code default}
   * @param bypassCache whether to query the resolver even if the groups are cached
   * @return the groups and their origin
   * @throws QueuegateException if the server does not answer
   */
  public ResolveUserGroupsResponse resolve(String user, String partition, boolean bypassCache) {
    Texts.Faults faults = new Texts.Faults();
    faults.required("user", user);
    faults.optional("partition", partition);
    faults.raise();
    ResolveUserGroupsRequest request =
        ResolveUserGroupsRequest.newBuilder()
            .setUser(user)
            .setPartition(partition)
            .setBypassCache(bypassCache)
            .build();
    return ask(UserGroupServiceGrpc.getResolveUserGroupsMethod(), request, limit(timeout));
  }

  /**
   * Invalidates the cached groups of users, so that the next decision resolves them again.
   *
   * @param users the names of the users
   * @param partition the partition whose groups to invalidate; empty for {@code default}
   * @param wait whether to wait until no {@link Gate} uses the invalidated groups, up to 6 s
   * @return the sums of all requests, with the cursor of the last one
   * @throws QueuegateException if a request fails; groups of earlier requests are invalidated
   */
  public InvalidateUserGroupsResponse invalidate(Collection<String> users, String partition, boolean wait) {
    Texts.Faults faults = new Texts.Faults();
    faults.optional("partition", partition);
    List<String> names = new ArrayList<>(users);
    for (int i = 0; i < names.size(); i++) {
      faults.required("users[" + i + "]", names.get(i));
    }
    faults.raise();
    CallOptions limit = limit(wait ? WAIT_TIMEOUT : timeout);
    InvalidateUserGroupsResponse.Builder total = InvalidateUserGroupsResponse.newBuilder();
    Set<String> waitedOut = new LinkedHashSet<>();
    for (int start = 0; start < names.size(); start += MAX_USERS) { // no users would mean all
      List<String> part = names.subList(start, Math.min(start + MAX_USERS, names.size()));
      InvalidateUserGroupsResponse response = invalidatePart(part, partition, wait, limit);
      total.setDropped(total.getDropped() + response.getDropped()).setCursor(response.getCursor());
      waitedOut.addAll(response.getWaitedOutList());
    }
    return total.addAllWaitedOut(waitedOut).build();
  }

  /**
   * Invalidates the cached groups of all users of a partition, as {@link #invalidate} does.
   *
   * @param partition the partition whose groups to invalidate; empty for {@code default}
   * @param wait whether to wait until no {@link Gate} uses the invalidated groups, up to 6 s
   * @return the number of users, and the cursor of the change
   * @throws QueuegateException if the server does not answer
   */
  public InvalidateUserGroupsResponse invalidateAll(String partition, boolean wait) {
    Texts.Faults faults = new Texts.Faults();
    faults.optional("partition", partition);
    faults.raise();
    return invalidatePart(new ArrayList<>(), partition, wait, limit(wait ? WAIT_TIMEOUT : timeout));
  }

  private InvalidateUserGroupsResponse invalidatePart(
      List<String> users, String partition, boolean wait, CallOptions limit) {
    InvalidateUserGroupsRequest request =
        InvalidateUserGroupsRequest.newBuilder()
            .setPartition(partition)
            .addAllUsers(users)
            .setWait(wait)
            .build();
    return ask(UserGroupServiceGrpc.getInvalidateUserGroupsMethod(), request, limit);
  }

  /**
   * Returns the policy of a partition.
   *
   * @param partition the name of the partition; empty for the only one or {@code default}
   * @param prefix limits the policy to this queue and the queues below it; empty for all
   * @return the policy
   * @throws QueuegateException if the server does not answer
   */
  public GetPolicyResponse getPolicy(String partition, String prefix) {
    Texts.Faults faults = new Texts.Faults();
    faults.optional("partition", partition);
    faults.optional("prefix", prefix);
    faults.raise();
    GetPolicyRequest request =
        GetPolicyRequest.newBuilder().setPartition(partition).setPrefix(prefix).build();
    return ask(PolicyServiceGrpc.getGetPolicyMethod(), request, limit(timeout));
  }

  /**
   * Reloads the server's configuration, within 30 s. An invalid configuration has no effect, and is
   * reported in the response rather than as an error.
   *
   * @param wait whether to wait until no {@link Gate} uses the old policy, up to 6 s
   * @return whether it succeeded, with diagnostics
   * @throws QueuegateException if the server does not answer
   */
  public ReloadPolicyResponse reload(boolean wait) {
    ReloadPolicyRequest request = ReloadPolicyRequest.newBuilder().setWait(wait).build();
    return ask(PolicyServiceGrpc.getReloadPolicyMethod(), request, limit(POLICY_TIMEOUT));
  }

  /**
   * Validates a configuration without serving it, within 30 s.
   *
   * @param content the configuration
   * @param format yunikorn, fair-scheduler or capacity-scheduler, or for a file that accompanies a policy,
   *     yarn-site or spark-defaults; if empty, it is detected
   * @return whether it is valid, with diagnostics
   * @throws QueuegateException if the server does not answer
   */
  public ValidatePolicyResponse validate(String content, String format) {
    Texts.Faults faults = new Texts.Faults();
    faults.optional("content", content);
    faults.optional("format", format);
    faults.raise();
    ValidatePolicyRequest request =
        ValidatePolicyRequest.newBuilder().setContent(content).setFormat(format).build();
    return ask(PolicyServiceGrpc.getValidatePolicyMethod(), request, limit(POLICY_TIMEOUT));
  }

  /**
   * Returns the replicas of the server's fleet, if it belongs to one.
   *
   * @return the replicas
   * @throws QueuegateException if the server does not answer
   */
  public GetFleetResponse getFleet() {
    return ask(PolicyServiceGrpc.getGetFleetMethod(), GetFleetRequest.getDefaultInstance(), limit(timeout));
  }

  /**
   * Returns the health of the server. The call is not retried, because a probe must report the current
   * state.
   *
   * @param service the full name of a service; empty for the server
   * @return the health
   * @throws QueuegateException if the server does not answer
   */
  public Health health(String service) {
    Texts.Faults faults = new Texts.Faults();
    faults.optional("service", service);
    faults.raise();
    try {
      int number = ask(HEALTH, StringValue.of(service), limit(timeout)).getValue();
      return number >= 0 && number < Health.values().length ? Health.values()[number] : Health.UNKNOWN;
    } catch (QueuegateException error) {
      if (error.code() == Status.Code.NOT_FOUND) {
        return Health.SERVICE_UNKNOWN;
      }
      throw error;
    }
  }

  private <Q, R> R ask(MethodDescriptor<Q, R> method, Q request, CallOptions limit) {
    return connection.call(method, limit, request);
  }

  private CallOptions limit(Duration ofCall) {
    long millis = Math.max((isExplicit ? timeout : ofCall).toMillis(), 1);
    return CallOptions.DEFAULT.withDeadline(Deadline.after(millis, TimeUnit.MILLISECONDS));
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
