package io.queuegate.hadoop;

import io.grpc.Status;
import io.queuegate.Check;
import io.queuegate.ClientConfig;
import io.queuegate.Decision;
import io.queuegate.DecisionRecord;
import io.queuegate.Gate;
import io.queuegate.GateConfig;
import io.queuegate.GateState;
import io.queuegate.LocalGate;
import io.queuegate.TlsConfig;
import io.queuegate.internal.LogText;
import io.queuegate.internal.PropertyNames;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.apache.hadoop.util.VersionInfo;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A connection through queuegate's client. */
final class ClientLink implements GateLink {
  /**
   * What the server's audit log lacks. On the level DEBUG, since Hadoop prints INFO by default, and YARN asks
   * about each queue of a page.
   */
  private static final Logger DECISIONS = LoggerFactory.getLogger("io.queuegate.decisions");

  private static final long POLL_MILLIS = 2;
  private static final int MAX_AGENT = 64;
  /** A policy or groups that arrive meanwhile void a decision. */
  private static final int ATTEMPTS = 3;

  private final Settings settings;
  private final LocalGate local;
  private final Function<Check, Decision> check;
  private final Supplier<GateState> state;
  private final Runnable close;
  private final List<Consumer<String>> listeners = new CopyOnWriteArrayList<>();

  /** Creates a connection from the parts of a gate, which tests replace. */
  ClientLink(
      Settings settings,
      LocalGate local,
      Function<Check, Decision> check,
      Supplier<GateState> state,
      Runnable close) {
    this.settings = settings;
    this.local = local;
    this.check = check;
    this.state = state;
    this.close = close;
    local.onInvalidation(settings.partition, user -> listeners.forEach(each -> each.accept(user)));
  }

  /**
   * Opens a connection in the background.
   *
   * @throws IllegalArgumentException if a file cannot be read, or the address is invalid; it names the key
   */
  static GateLink open(Settings settings) {
    ClientLog.install();
    try {
      Gate gate = Gate.open(config(settings));
      return new ClientLink(settings, gate.local(), gate::checkLocally, gate::state, gate::close);
    } catch (IllegalArgumentException error) {
      throw new IllegalArgumentException(PropertyNames.in(error.getMessage()), error.getCause());
    }
  }

  private static GateConfig config(Settings settings) {
    ClientConfig.Builder client =
        ClientConfig.builder().address(settings.address).tokenFile(settings.tokenFile);
    if (settings.tls) {
      TlsConfig tls =
          TlsConfig.defaults().withCaFile(settings.caFile).withServerName(settings.serverName);
      client.tls(
          settings.keyFile.isEmpty()
              ? tls
              : tls.withCertificate(settings.certificateFile, settings.keyFile));
    }
    return GateConfig.builder()
        .client(client.build())
        .partitions(Collections.singletonList(settings.partition))
        .stale(settings.stale)
        .name(settings.name)
        .agent(agent())
        .onDecision(ClientLink::log)
        .build();
  }

  static void log(DecisionRecord record) {
    if (DECISIONS.isDebugEnabled()) {
      DECISIONS.debug(record.json());
    }
  }

  /** Returns this program with its version and Hadoop's, as in {@code queuegate-hadoop/1.0.0 hadoop/3.4.2}. */
  private static String agent() {
    String version = ClientLink.class.getPackage().getImplementationVersion(); // null outside the jar
    String agent = "queuegate-hadoop" + (version == null ? "" : "/" + version);
    String withHadoop = agent + " hadoop/" + VersionInfo.getVersion();
    return withHadoop.length() <= MAX_AGENT ? withHadoop : agent;
  }

  @Override
  public Answer decide(QueueCheck asked, List<String> groups) {
    Check question = groups == null ? question(asked) : question(asked).withGroups(groups);
    for (int i = 0; i < ATTEMPTS; i++) {
      Decision decision =
          groups == null ? local.checkWithoutGroups(question) : check.apply(question);
      if (decision != null) {
        return answer(decision);
      }
    }
    return groups == null && isLive() ? Answer.GROUPS_UNKNOWN : Answer.UNDECIDED;
  }

  @Override
  public Answer decideWithServerGroups(QueueCheck asked) {
    Check question = question(asked);
    for (int i = 0; i < ATTEMPTS; i++) {
      Decision decision = check.apply(question);
      if (decision != null) {
        return answer(decision);
      }
      if (groups(asked.user) == null) {
        return isLive() ? Answer.GROUPS_UNKNOWN : Answer.UNDECIDED;
      }
    }
    return Answer.UNDECIDED;
  }

  private Check question(QueueCheck asked) {
    return Check.of(asked.user, asked.queue)
        .withPartition(settings.partition)
        .withAccess(asked.access)
        .withRealUser(asked.realUser);
  }

  private static Answer answer(Decision decision) {
    if (decision.stale()) {
      return decision.allowed() ? Answer.ALLOWED_BY_STALE_STATE : Answer.DENIED_BY_STALE_STATE;
    }
    return decision.allowed() ? Answer.ALLOWED : Answer.DENIED;
  }

  @Override
  public List<String> groups(String user) {
    return local.groups(settings.partition, user);
  }

  @Override
  public void awaitGroups(String user, long millis) throws InterruptedException {
    long end = System.nanoTime() + millis * 1_000_000;
    while (groups(user) == null && mayAnswerSoon(user) && System.nanoTime() - end < 0) {
      Thread.sleep(POLL_MILLIS);
    }
  }

  /** Returns whether waiting makes sense: not while the server is away, or its resolver is. */
  private boolean mayAnswerSoon(String user) {
    return isConnected() && local.awaitsGroups(settings.partition, user)
        || state.get() == GateState.CONNECTING && local.lastFailure() == null;
  }

  @Override
  public void onInvalidation(Consumer<String> invalidate) {
    listeners.add(invalidate);
  }

  @Override
  public boolean isConnected() {
    GateState now = state.get();
    return now == GateState.LIVE || now == GateState.FORBIDDEN && local.lastFailure() == null;
  }

  @Override
  public boolean isLive() {
    return state.get() == GateState.LIVE;
  }

  @Override
  public String state() {
    return state.get().name().toLowerCase(Locale.ROOT);
  }

  @Override
  public void countFallbacks(LongSupplier fallbacks) {
    local.countFallbacks(fallbacks);
  }

  @Override
  public long policyAgeMillis() {
    return local.policyAgeMillis();
  }

  @Override
  public long revision() {
    return local.revision(settings.partition);
  }

  @Override
  public String faultOfGroups() {
    Status.Code failure = local.lastFailure();
    if (failure == Status.Code.PERMISSION_DENIED) {
      return "the server denies this process the role sync: add sync to this caller's roles (callers) in the "
          + "server's settings";
    }
    if (failure == Status.Code.UNAUTHENTICATED) {
      return "the server does not know this caller: set " + Key.TOKEN_FILE.text
          + " to the file of a token that its callers.token_file lists, or "
          + Key.TLS_CERTIFICATE_FILE.text + " to a valid certificate";
    }
    if (failure == Status.Code.UNIMPLEMENTED) {
      return "the server at " + settings.address + " has no SyncService: upgrade it, or correct "
          + Key.ADDRESS.text;
    }
    LocalGate.Rights rights = local.rights(settings.partition);
    if (rights == null) {
      return null;
    }
    if (!rights.hasPartition()) {
      return "the server has no partition '" + LogText.ofOthers(settings.partition) + "': correct "
          + Key.PARTITION.text + " (the server has: " + LogText.listed(local.partitions()) + ")";
    }
    if (!rights.knowsRules()) {
      return rights.decide()
          ? "the server's decision rules are newer than this jar: upgrade the jar"
          : "the server and this jar have different decision rules: upgrade the older one";
    }
    return null;
  }

  @Override
  public String fault(boolean statesGroups) {
    String fault = faultOfGroups();
    LocalGate.Rights rights = local.rights(settings.partition);
    if (fault != null || rights == null) {
      return fault;
    }
    if (!rights.decide()) {
      return "the server does not let this jar decide: set sync.local_decisions: allow in its settings if it "
          + "keeps an audit log, and otherwise upgrade the older one of the server and this jar";
    }
    if (statesGroups && !rights.stateGroups()) {
      return "the server ignores the groups that this caller states: set assert_groups: true for the caller, and "
          + "trust_provided_groups: true for the partition, in the server's settings";
    }
    return null;
  }

  @Override
  public void close() {
    close.run();
  }
}
