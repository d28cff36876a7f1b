package io.queuegate.hadoop;

import io.queuegate.Access;
import io.queuegate.internal.Clock;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonConfigurationKeysPublic;
import org.apache.hadoop.ipc.Server;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.CompositeGroupsMapping;
import org.apache.hadoop.security.Groups;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.yarn.security.AccessRequest;
import org.apache.hadoop.yarn.security.AccessType;
import org.apache.hadoop.yarn.security.ConfiguredYarnAuthorizer;
import org.apache.hadoop.yarn.security.PrivilegedEntity.EntityType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes YARN's ResourceManager ask queuegate who may use a queue ({@code yarn.authorization-provider}).
 *
 * <p>It decides with a gate in the ResourceManager's own process, and never calls another process on the
 * scheduler's threads. YARN's own ACLs, which the superclass keeps, can decide while the gate cannot.
 */
public final class QueuegateYarnAuthorizer extends ConfiguredYarnAuthorizer {
  private static final int LOOKUP_THREADS = 4;
  private static final String UNKNOWN_QUEUE = "(unknown)";
  private static final Logger LOG = LoggerFactory.getLogger(QueuegateYarnAuthorizer.class);
  private static final String WITHOUT_GROUPS = Key.FALLBACK.text + " is yarn-acl, and Hadoop takes groups from "
    + "queuegate. While no server can be reached{}, YARN's ACLs know no groups other than those in Hadoop's cache: "
    + "they grant access to the users that they list and to everyone (*), but not by groups. Set "
    + Key.STALE.text + " to the time for which the gate is to decide from its last policy and groups before "
    + "that, or list the users who must have access in YARN's ACLs.";

  private final Function<Settings, GateLink> open;
  private final Counters counters = new Counters();
  private volatile QueueDecider decider; // null until `init` has succeeded

  /** Creates an authorizer, as the ResourceManager does. */
  public QueuegateYarnAuthorizer() {
    this(ClientLink::open);
  }

  QueuegateYarnAuthorizer(Function<Settings, GateLink> open) {
    this.open = open;
  }

  /**
   * Connects to queuegate, and waits for the first policy.
   *
   * @throws IllegalArgumentException if a setting is invalid or missing; it names the key
   * @throws IllegalStateException if the server does not let this process decide; it names the setting
   */
  @Override
  public void init(Configuration configuration) {
    super.init(configuration);
    Settings settings = Settings.of(configuration);
    Fallback fallback = settings.requiredFallback();
    boolean usesServerGroups = configuration.getTrimmed(
      CommonConfigurationKeysPublic.HADOOP_SECURITY_GROUP_MAPPING, "")
      .equals(QueuegateGroupsMapping.class.getName());
    GateLink link = SharedLinks.of(settings, open);
    counters.describeGate(() -> {
      String fault = link.fault(!usesServerGroups);
      return fault == null ? link.state() : link.state() + "; " + fault;
    });
    GroupsCopy groups = usesServerGroups ? null : groupsOf(configuration, settings);
    QueueGate gate = usesServerGroups ? new ServerGroupsGate(link) : new HadoopGroupsGate(link, groups);
    StartCheck.await(link, settings.startTimeout, !usesServerGroups, fallback);
    if (fallback == Fallback.YARN_ACL && takesGroupsOfServer(configuration)) {
      LOG.warn(WITHOUT_GROUPS, settings.stale.isZero() ? "" : ", and " + Key.STALE.text + " has passed");
    }
    decider = new QueueDecider(gate, fallback, settings.groupTimeout.toMillis(), counters);
    link.countFallbacks(counters::allFallbacks);
    register(new AuthorizerMetrics(counters, link, groups));
    // A process's first decision loads classes, so it must not be one of the scheduler's.
    gate.decide(new QueueCheck(ownName(), "", "root", Access.SUBMIT));
  }

  /** Returns whether a user may use a queue. Throws nothing, and never waits on the scheduler's threads. */
  @Override
  public boolean checkPermission(AccessRequest request) {
    QueueDecider current = decider;
    if (current == null) {
      return false;
    }
    try {
      Access access = accessOf(request.getAccessType());
      if (access == null || request.getEntity().getType() != EntityType.QUEUE) {
        // YARN asks queuegate about queues only.
        return ServerGroups.decision(() -> super.checkPermission(request), mayWait());
      }
      UserGroupInformation real = request.getUser().getRealUser();
      QueueCheck check = new QueueCheck(request.getUser().getShortUserName(),
        real == null ? "" : real.getShortUserName(), request.getEntity().getName(), access);
      return current.allows(check, mayWait(), () -> super.checkPermission(request));
    } catch (Throwable error) {
      counters.failed("a question of the ResourceManager", error);
      return current.fallBack(UNKNOWN_QUEUE, mayWait(), () -> super.checkPermission(request));
    }
  }

  /** Returns whether a user administers the cluster, which YARN's own settings say. */
  @Override
  public boolean isAdmin(UserGroupInformation user) {
    try {
      return super.isAdmin(user);
    } catch (Throwable error) {
      counters.failed("a question about administrators", error);
      return false;
    }
  }

  /** Returns whether Hadoop takes groups from queuegate, from it alone or among others. */
  private static boolean takesGroupsOfServer(Configuration configuration) {
    String mapping = CommonConfigurationKeysPublic.HADOOP_SECURITY_GROUP_MAPPING;
    String ours = QueuegateGroupsMapping.class.getName();
    if (configuration.getTrimmed(mapping, "").equals(ours)) {
      return true;
    }
    return configuration.getTrimmed(mapping, "").equals(CompositeGroupsMapping.class.getName())
      && configuration.getTrimmedStringCollection(CompositeGroupsMapping.MAPPING_PROVIDERS_CONFIG_KEY).stream()
        .anyMatch(each -> ours.equals(configuration.getTrimmed(mapping + ".provider." + each)));
  }

  private static String ownName() {
    try {
      return UserGroupInformation.getLoginUser().getShortUserName();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static Access accessOf(AccessType type) {
    switch (type) {
      case SUBMIT_APP:
        return Access.SUBMIT;
      case ADMINISTER_QUEUE:
        return Access.ADMIN;
      default:
        return null;
    }
  }

  /** Returns whether this is a thread on which YARN itself looks groups up: of a call over RPC or HTTP. */
  private static boolean mayWait() {
    return Server.isRpcInvocation() || Thread.currentThread().getName().startsWith("qtp");
  }

  private static GroupsCopy groupsOf(Configuration configuration, Settings settings) {
    Groups mapping = Groups.getUserToGroupsMappingService(configuration);
    AtomicInteger number = new AtomicInteger();
    ThreadPoolExecutor threads = new ThreadPoolExecutor(LOOKUP_THREADS, LOOKUP_THREADS, 1, TimeUnit.MINUTES,
      new LinkedBlockingQueue<>(settings.maxUsers), work -> {
        Thread thread = new Thread(work, "queuegate-groups-" + number.incrementAndGet());
        thread.setDaemon(true);
        return thread;
      });
    threads.allowCoreThreadTimeOut(true);
    return new GroupsCopy(mapping::getGroups, threads, settings, Clock.ofMachine()::now);
  }

  private static void register(AuthorizerMetrics metrics) {
    DefaultMetricsSystem.instance().unregisterSource(AuthorizerMetrics.NAME);
    DefaultMetricsSystem.instance().register(
      AuthorizerMetrics.NAME, "Decisions of queuegate in this process", metrics);
  }
}
