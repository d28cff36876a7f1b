package io.queuegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.grpc.Status;
import io.queuegate.Access;
import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.DecisionRecord;
import io.queuegate.GateState;
import io.queuegate.LocalGate;
import io.queuegate.Reason;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.PatternLayout;
import org.apache.log4j.WriterAppender;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class ClientLinkTest {
  private static final QueueCheck CHECK = new QueueCheck("alice", "livy", "root.a", Access.ADMIN);
  private static final Decision ALLOWED = decision(true, false);
  private static final List<String> DEV = Collections.singletonList("dev");

  private final Known known = new Known();
  private final Deque<Decision> decisions = new ArrayDeque<>();
  private final List<Check> asked = new ArrayList<>();
  private GateState state = GateState.LIVE;
  private int nulls; // before the first decision
  private final ClientLink link =
      new ClientLink(Settings.of(SettingsTest.with()), known, this::check, () -> state, () -> { });

  private static Decision decision(boolean allowed, boolean stale) {
    return new Decision(allowed, allowed ? Reason.USER : Reason.NO_MATCH, "", "", 1, "", stale);
  }

  private Decision check(Check question) {
    asked.add(question);
    return nulls-- > 0 ? null : decisions.peek();
  }

  @Test
  void asksWithEverything() {
    link.decide(CHECK, DEV);
    Check expected = Check.of("alice", "root.a").withPartition("default").withAccess(Access.ADMIN)
        .withRealUser("livy").withGroups(DEV);
    assertEquals(expected, asked.get(0));
  }

  static Stream<Arguments> decisionsOfGates() {
    return Stream.of(
        arguments(decision(true, false), Answer.ALLOWED),
        arguments(decision(false, false), Answer.DENIED),
        arguments(decision(true, true), Answer.ALLOWED_BY_STALE_STATE),
        arguments(decision(false, true), Answer.DENIED_BY_STALE_STATE));
  }

  @ParameterizedTest
  @MethodSource("decisionsOfGates")
  void answers(Decision decision, Answer answer) {
    decisions.add(decision);
    assertEquals(answer, link.decide(CHECK, DEV));
    assertEquals(answer, link.decideWithServerGroups(CHECK));
    known.withoutGroups = decision;
    assertEquals(answer, link.decide(CHECK, null));
  }

  @Test
  void aPolicyThatArrivesMeanwhileCausesNoFallback() {
    decisions.add(ALLOWED);
    nulls = 1;
    assertEquals(Answer.ALLOWED, link.decide(CHECK, DEV));
  }

  @Test
  void groupsThatArriveMeanwhileCauseNoFallback() {
    decisions.add(ALLOWED);
    nulls = 1;
    known.groups = DEV; // the gate lacked them when it was asked first
    assertEquals(Answer.ALLOWED, link.decideWithServerGroups(CHECK));
  }

  @Test
  void whatOnlyTheServerCanDecideIsUndecided() {
    known.groups = DEV;
    assertEquals(Answer.UNDECIDED, link.decide(CHECK, DEV));
    assertEquals(Answer.UNDECIDED, link.decideWithServerGroups(CHECK));
  }

  @Test
  void groupsAreUnknownOnlyUnderALease() {
    assertEquals(Answer.GROUPS_UNKNOWN, link.decide(CHECK, null));
    assertEquals(Answer.GROUPS_UNKNOWN, link.decideWithServerGroups(CHECK));
    state = GateState.EXPIRED;
    assertEquals(Answer.UNDECIDED, link.decide(CHECK, null));
    assertEquals(Answer.UNDECIDED, link.decideWithServerGroups(CHECK));
  }

  @Test
  void nobodyWaitsForAServerThatIsAway() throws InterruptedException {
    state = GateState.EXPIRED;
    link.awaitGroups("alice", 600_000);
    state = GateState.CONNECTING;
    known.lastFailure = Status.Code.UNAVAILABLE;
    link.awaitGroups("alice", 600_000);
  }

  @Test
  void nobodyWaitsForADirectoryThatIsAway() throws InterruptedException {
    known.isAwaited = false;
    link.awaitGroups("alice", 600_000);
  }

  @Test
  void groupsOfAServerThatForbidsDecisionsAreWaitedFor() throws InterruptedException {
    state = GateState.FORBIDDEN;
    long began = System.nanoTime();
    link.awaitGroups("alice", 50);
    assertTrue(System.nanoTime() - began >= 50_000_000);
    known.lastFailure = Status.Code.UNAVAILABLE;
    link.awaitGroups("alice", 600_000);
  }

  @Test
  void groupsNeedNoRightToDecide() {
    known.rights = new LocalGate.Rights(false, false, true, true);
    assertNull(link.faultOfGroups());
    known.rights = new LocalGate.Rights(true, true, false, false);
    assertTrue(link.faultOfGroups().contains("correct queuegate.partition"));
  }

  static Stream<Arguments> faults() {
    return Stream.of(
        arguments(null, null, null),
        arguments(Status.Code.UNAVAILABLE, null, null),
        arguments(Status.Code.PERMISSION_DENIED, null, "add sync to this caller's roles"),
        arguments(Status.Code.UNAUTHENTICATED, null, "callers.token_file lists"),
        arguments(Status.Code.UNIMPLEMENTED, null, "queuegate.address"),
        arguments(null, new LocalGate.Rights(true, true, true, true), null),
        arguments(null, new LocalGate.Rights(false, true, true, true), "sync.local_decisions: allow"),
        arguments(null, new LocalGate.Rights(false, true, true, true), "upgrade the older one"),
        arguments(null, new LocalGate.Rights(true, true, false, false),
            "correct queuegate.partition (the server has: gpu, hadoop)"),
        arguments(null, new LocalGate.Rights(true, true, true, false), "upgrade the jar"),
        arguments(null, new LocalGate.Rights(false, true, true, false), "upgrade the older one"),
        arguments(null, new LocalGate.Rights(true, false, true, true), "assert_groups: true"));
  }

  @ParameterizedTest
  @MethodSource("faults")
  void namesWhatIsMissing(Status.Code failure, LocalGate.Rights rights, String remedy) {
    known.lastFailure = failure;
    known.rights = rights;
    String fault = link.fault(true);
    if (remedy == null) {
      assertNull(fault);
    } else {
      assertTrue(fault.contains(remedy), fault);
    }
  }

  static Stream<Arguments> unusableSettings() throws IOException {
    Path file = Files.write(Files.createTempFile("queuegate", "token"), new byte[] {'t'});
    file.toFile().deleteOnExit();
    String token = file.toString();
    return Stream.of(
        arguments("queuegate.address", "nohost", "queuegate.address \"nohost\": not a host and a port"),
        arguments("queuegate.tls.ca-file", "/missing", "queuegate.tls.ca-file: cannot read \"/missing\""),
        arguments("queuegate.tls.ca-file", token, "queuegate.tls.ca-file \"" + token + "\" does not contain"),
        arguments("queuegate.name", "a\tb", "queuegate.name must not contain"),
        arguments("queuegate.token-file", token, "configure TLS (queuegate.tls or queuegate.tls.ca-file)"));
  }

  @ParameterizedTest
  @MethodSource("unusableSettings")
  void namesTheKeyOfAnUnusableSetting(String key, String value, String message) {
    Configuration configuration = SettingsTest.with("queuegate.address", "192.0.2.1:50051", key, value);
    Exception error = assertThrows(
        IllegalArgumentException.class, () -> ClientLink.open(Settings.of(configuration)));
    assertTrue(error.getMessage().contains(message), error.getMessage());
  }

  @Test
  void theServerLearnsTheNumberOfFallbacks() {
    link.countFallbacks(() -> 3);
    assertEquals(3, known.fallbacks.getAsLong());
    assertEquals(8, link.policyAgeMillis());
  }

  @Test
  void everyListenerLearnsOfInvalidations() {
    List<String> heard = new ArrayList<>();
    link.onInvalidation(user -> heard.add("first " + user));
    link.onInvalidation(user -> heard.add("second " + user));
    known.invalidate.accept("alice");
    assertEquals(Arrays.asList("first alice", "second alice"), heard);
  }

  @Test
  void theRightToStateGroupsMattersOnlyToThoseWhoDo() {
    known.rights = new LocalGate.Rights(true, false, true, true);
    assertNull(link.fault(false));
  }

  @Test
  void decisionsAreLoggedIfHadoopIsToldTo() {
    StringWriter logged = new StringWriter();
    Logger logger = Logger.getLogger("io.queuegate.decisions");
    WriterAppender appender = new WriterAppender(new PatternLayout("%m%n"), logged);
    logger.addAppender(appender);
    DecisionRecord record = new DecisionRecord("rm", Instant.EPOCH, Check.of("alice", "root"), ALLOWED);
    try {
      logger.setLevel(Level.INFO);
      ClientLink.log(record);
      logger.setLevel(Level.DEBUG);
      ClientLink.log(record);
    } finally {
      logger.removeAppender(appender);
      logger.setLevel(null);
    }
    assertEquals(record.json() + System.lineSeparator(), logged.toString());
  }

  private static final class Known implements LocalGate {
    Decision withoutGroups;
    List<String> groups;
    Rights rights;
    Status.Code lastFailure;
    boolean isAwaited = true;
    LongSupplier fallbacks;
    Consumer<String> invalidate;

    @Override
    public Decision checkWithoutGroups(Check question) {
      return withoutGroups;
    }

    @Override
    public List<String> groups(String partition, String user) {
      return groups;
    }

    @Override
    public boolean awaitsGroups(String partition, String user) {
      return isAwaited;
    }

    @Override
    public void onInvalidation(String partition, Consumer<String> listener) {
      invalidate = listener;
    }

    @Override
    public Rights rights(String partition) {
      return rights;
    }

    @Override
    public List<String> partitions() {
      return Arrays.asList("gpu", "hadoop");
    }

    @Override
    public void countFallbacks(LongSupplier counted) {
      fallbacks = counted;
    }

    @Override
    public long policyAgeMillis() {
      return 8;
    }

    @Override
    public long revision(String partition) {
      return 1;
    }

    @Override
    public Status.Code lastFailure() {
      return lastFailure;
    }
  }
}
