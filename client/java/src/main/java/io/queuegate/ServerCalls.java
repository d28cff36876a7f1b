package io.queuegate;

import com.google.protobuf.Int32Value;
import com.google.protobuf.StringValue;
import io.grpc.CallOptions;
import io.grpc.Deadline;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.protobuf.ProtoUtils;
import io.queuegate.v1.GetFleetRequest;
import io.queuegate.v1.GetFleetResponse;
import io.queuegate.v1.GetPolicyRequest;
import io.queuegate.v1.GetPolicyResponse;
import io.queuegate.v1.InvalidateUserGroupsRequest;
import io.queuegate.v1.InvalidateUserGroupsResponse;
import io.queuegate.v1.PolicyServiceGrpc;
import io.queuegate.v1.ReloadPolicyRequest;
import io.queuegate.v1.ReloadPolicyResponse;
import io.queuegate.v1.ResolveUserGroupsRequest;
import io.queuegate.v1.ResolveUserGroupsResponse;
import io.queuegate.v1.StaleGate;
import io.queuegate.v1.UserGroupServiceGrpc;
import io.queuegate.v1.ValidatePolicyRequest;
import io.queuegate.v1.ValidatePolicyResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** The calls of a client about the server: its groups, its policy, its fleet and its health. */
abstract class ServerCalls {
  /** Large configurations take seconds. */
  static final Duration POLICY_TIMEOUT = Duration.ofSeconds(30);

  private static final Duration WAIT_TIMEOUT = Duration.ofSeconds(15); // gates have leases of seconds
  private static final int MAX_USERS = 10_000;
  // Both messages have a single field, with these types and the number 1.
  private static final MethodDescriptor<StringValue, Int32Value> HEALTH =
      MethodDescriptor.<StringValue, Int32Value>newBuilder()
          .setType(MethodDescriptor.MethodType.UNARY)
          .setFullMethodName("grpc.health.v1.Health/Check")
          .setRequestMarshaller(ProtoUtils.marshaller(StringValue.getDefaultInstance()))
          .setResponseMarshaller(ProtoUtils.marshaller(Int32Value.getDefaultInstance()))
          .build();

  final Connection connection;
  final Duration timeout;
  private final boolean isExplicit; // whether the time limit applies to all calls

  ServerCalls(Connection connection, Duration timeout, boolean isExplicit) {
    this.connection = connection;
    this.timeout = timeout;
    this.isExplicit = isExplicit;
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
    Map<String, Long> staleMillis = new LinkedHashMap<>(); // each gate once, with its longest time
    for (int start = 0; start < names.size(); start += MAX_USERS) { // no users would mean all
      List<String> part = names.subList(start, Math.min(start + MAX_USERS, names.size()));
      InvalidateUserGroupsResponse response = invalidatePart(part, partition, wait, limit);
      total.setDropped(total.getDropped() + response.getDropped()).setCursor(response.getCursor());
      waitedOut.addAll(response.getWaitedOutList());
      for (StaleGate gate : response.getStaleGatesList()) {
        staleMillis.merge(gate.getName(), gate.getRemainingMillis(), Math::max);
      }
    }
    staleMillis.forEach((name, millis) ->
        total.addStaleGates(StaleGate.newBuilder().setName(name).setRemainingMillis(millis)));
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

  final <Q, R> R ask(MethodDescriptor<Q, R> method, Q request, CallOptions limit) {
    return connection.call(method, limit, request);
  }

  /** Returns the options of a call or of several that share a time limit. */
  final CallOptions limit(Duration ofCall) {
    long millis = Math.max((isExplicit ? timeout : ofCall).toMillis(), 1);
    return CallOptions.DEFAULT.withDeadline(Deadline.after(millis, TimeUnit.MILLISECONDS));
  }
}
