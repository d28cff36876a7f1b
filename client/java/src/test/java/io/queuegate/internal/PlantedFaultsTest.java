package io.queuegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.queuegate.DecisionRecordTest;
import io.queuegate.Planted;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The tests of gates find faults, among them those planted in the gate in Python. */
class PlantedFaultsTest {
  @TempDir Path folder;

  private static Planted in(String source, String what, String line, String fault, Class<?>... tests) {
    return Planted.in(what, "io/queuegate/internal/" + source, line, fault, tests);
  }

  static Stream<Planted> faults() {
    return Stream.of(protocol(), decisions(), policies(), chains(), clocks(), records(), settings())
        .flatMap(each -> each);
  }

  private static Stream<Planted> protocol() {
    return Stream.of(
        in("Session", "counts the lease from the pong",
            "startLease(response.getPong().getId());",
            "startLease(response.getPong().getId());\n        leaseUntil = now + lease;", SessionTest.class),
        in("Session", "confirms an invalidation without applying it",
            "replica.users.forget(response.getForget().getPartition(), response.getForget().getUsersList());",
            "", SessionTest.class),
        in("Session", "keeps the lease of another server",
            "    leaseUntil = Clock.NEVER;\n    replica.reset", "    replica.reset", SessionTest.class),
        in("Session", "decides after a release",
            "leaseUntil = now < Clock.FOREVER ? Math.min(leaseUntil, now) : Clock.NEVER;", "", SessionTest.class),
        in("Session", "accepts pongs of an earlier stream",
            "    dropPings();\n    replica.dropParts();", "    replica.dropParts();", SessionTest.class),
        in("LocalView", "awaits groups of a server that answers nothing",
            "\n        && clock.getAsLong() - decider.unansweredSince() < SILENCE", "", LocalViewTest.class),
        in("Session", "confirms a policy that is incomplete",
            "confirms && replica.incomplete() != null", "false", BoundsTest.class),
        in("Session", "resumes from a position that is not confirmed",
            "if (epoch != null) {\n      message.setResume(Cursor.newBuilder().setEpoch(epoch)",
            "if (!announced.isEmpty()) {\n      message.setResume(Cursor.newBuilder().setEpoch(announced)",
            SessionTest.class),
        in("Session", "resumes from another server's position",
            "opened.getResumed() && !opened.getEpoch().equals(epoch)", "false", SessionTest.class),
        in("Session", "keeps a fleet's cursor without its groups",
            "      fleetCursor = null;\n    }\n    leaseUntil", "    }\n    leaseUntil", SessionTest.class),
        in("Session", "ignores the error of its clock",
            "millis(opened.getLeaseMillis()) - clockError", "millis(opened.getLeaseMillis())", SessionTest.class),
        in("Session", "counts the lifetime of groups from their arrival",
            "exists, groups, askedAt,", "exists, groups, now,", SessionTest.class),
        in("Wants", "uses groups that it has not requested",
            "earlier == null || earlier.isAnswered", "false", SessionTest.class),
        in("Wants", "waits for answers to an earlier stream",
            "    waiting.clear();\n    lookups.clear();", "", SessionTest.class),
        in("MessageChecks", "takes a failed look-up for a user without groups",
            "given.getOutcome() != ResolveOutcome.RESOLVE_OUTCOME_RESOLVED", "false", SessionTest.class),
        in("Users", "uses decisions whose groups were invalidated",
            "entry.expiresAt = Clock.NEVER;", "", SessionTest.class),
        in("Users", "tells nobody of invalidations",
            "names.forEach(listening.invalidate);", "", LocalViewTest.class),
        in("Liveness", "takes pongs without a policy for progress",
            "if (!lacksPolicy) {", "if (true) {", LivenessTest.class),
        in("Liveness", "waits forever for a pong after policies",
            "unansweredLooks >= MAX_UNANSWERED_LOOKS", "false", LivenessTest.class),
        in("GateCore", "applies messages of an earlier stream",
            "if (isClosed || from != stream) {", "if (isClosed) {", GateCoreTest.class),
        in("GateCore", "replaces a release by another acknowledgment",
            "(reply == null || !reply.hasRelease())", "true", GateCoreTest.class),
        in("GateCore", "decides from old state beside a new stream",
            "      decider.setGrace(0);\n      hasAnswered", "      hasAnswered", GateCoreTest.class),
        in("GateCore", "decides from old state for a server that rejects it",
            "        session.reset(Collections.<String>emptyList());\n        break;", "        break;",
            GateCoreTest.class),
        in("GateCore", "pings without a readable clock",
            "isClosed || now >= Clock.FOREVER", "isClosed", GateCoreTest.class));
  }

  private static Stream<Planted> decisions() {
    return Stream.of(
        in("Decider", "decides from a state that was replaced",
            "replica.state() != from", "false", TellingTest.class),
        in("Decider", "decides after a slow listener without a lease",
            "decision = current(from, memo.decision, memo.entry); // the", "// the", TellingTest.class),
        in("Decider", "decides without telling its program", "tell(memo.question, decision);", "",
            TellingTest.class),
        in("Decider", "lets its program's failures change decisions", "catch (Throwable fault) { // which",
            "catch (Exception fault) { // which", TellingTest.class),
        in("Decider", "uses groups beyond their lifetime",
            "validUntil = Math.min(validUntil, entry.expiresAt());", "", SessionTest.class),
        in("Decider", "hides that state is stale", "        true);\n  }\n\n  /** Decides",
            "        false);\n  }\n\n  /** Decides", SessionTest.class),
        in("Decider", "uses stated groups without the right",
            "local.useGivenGroups && from.rights.assertGroups ? question.groups() : null", "question.groups()",
            SessionTest.class),
        in("Decider", "takes an unknown user for one without groups", "entry.exists\n", "true\n",
            SessionTest.class),
        in("Memory", "uses decisions from another policy",
            "memo.generation == generation && ", "", SessionTest.class),
        in("LocalView", "gives groups without a lease",
            "!decider.isCovered(from, entry)", "false", LocalViewTest.class),
        in("LocalView", "fails if its caller's count does", "catch (RuntimeException ofTheCaller)",
            "catch (IllegalArgumentException ofTheCaller)", LocalViewTest.class),
        in("LocalView", "knows rights before the policies", "hasPolicies = isAccepted;\n  }",
            "hasPolicies = true;\n  }\n\n  { hasPolicies = true; }", LocalViewTest.class),
        in("Partition", "takes unknown groups for none",
            "if (groups == null) {\n      return null;", "if (groups == null) {\n      return end(at, level, revision);",
            SessionTest.class),
        in("Partition", "prefers a service to the user's own right",
            "!realUser.isEmpty() && (decision == null || !decision.allowed())", "!realUser.isEmpty()",
            DecideTest.class),
        in("Partition", "lets users submit to the recovery queue",
            "!isYarn() && Names.isRecovery(path)", "false", DecideTest.class, GateVectorsTest.class),
        in("Partition", "decides on queues that YARN creates without the server",
            "created.containsKey(number)", "false", DecideTest.class, GateVectorsTest.class),
        in("Partition", "prefers distant levels",
            "level -= above[level]) {\n      if (name != null && lists(level, 0, name)) {",
            "level -= above[level]) {\n      if (above[level - above[level]] == 0 && name != null"
                + " && lists(level, 0, name)) {", DecideTest.class, GateVectorsTest.class));
  }

  private static Stream<Planted> policies() {
    return Stream.of(
        in("Replica", "accepts policies with unknown rules",
            "part.getRules() == Partition.RULES && ", "", BoundsTest.class, DecideTest.class),
        in("Replica", "takes another policy for an unchanged one",
            "|| !known.checksum.equals(part.getChecksum())", "", BoundsTest.class),
        in("Replica", "uses policies after a reset",
            "replace(Collections.<String, PartitionPolicy>emptyMap(), state.rights);", "", SessionTest.class),
        in("Replica", "accepts policies of any size", "together > LIMITS[i]", "false", BoundsTest.class),
        in("Replica", "counts a policy twice that was replaced",
            "heldSize[i] -= known.size[i];", "", BoundsTest.class),
        in("Tables", "accepts chains of any length",
            "lengths[i] >= Bounds.MAX_CHAIN_LEVELS", "false", BoundsTest.class),
        in("Tables", "accepts references to later levels", "!isBelow(above, i + 1)", "false", BoundsTest.class),
        in("Tables", "accepts names that do not exist",
            "!areBelow(levels.getListedList(), earlier.getNamesCount() + part.getNamesCount())", "false",
            BoundsTest.class),
        in("Tables", "ignores names at the end of a chain",
            "p.starts[3 * i + 3] > p.starts[3 * i]", "false", BoundsTest.class),
        in("Tables", "accepts a queue that is its own parent",
            "distance == 0 || !isBelow(distance, i + 1)", "!isBelow(distance, i + 1)", BoundsTest.class),
        in("Tables", "accepts starts of chains that do not exist",
            "!areBelow(queues.getSubmitList(), known)", "false", BoundsTest.class),
        in("Tables", "searches lists that it has not sorted",
            "Arrays.sort(partition.listed, start, start + length);", "", DecideTest.class, BoundsTest.class));
  }

  /** Faults in what makes the gates of all languages refuse the same policies. */
  private static Stream<Planted> chains() {
    return Stream.of(
        in("Tables", "accepts queues after created ones",
            "queues.getNameCount() > 0 && earlier.getCreatedQueuesOrBuilder().getNameCount() > 0", "false",
            GateVectorsTest.class),
        in("Tables", "accepts levels of later parts",
            "earlier.getLevelsOrBuilder().getAboveCount() + levels.getAboveCount()", "Integer.MAX_VALUE - 1",
            GateVectorsTest.class),
        in("MessageChecks", "accepts the naming of a later part", "part.getNamingValue() != 0", "false",
            GateVectorsTest.class),
        in("Tables", "accepts created queues at any depth", "below[number] > Bounds.MAX_CREATED_LEVELS", "false",
            GateVectorsTest.class),
        in("Tables", "counts the levels of a created queue from its parent",
            "below[number] = below[parent] + 1;", "below[number] = 1;", GateVectorsTest.class),
        in("Tables", "accepts a wildcard of the cluster", "p.ends[i] == Reason.WILDCARD", "false",
            GateVectorsTest.class),
        in("Tables", "accepts a queue's administrators as the cluster's",
            "p.ends[i] == Reason.CLUSTER_ADMIN", "false", GateVectorsTest.class),
        in("Tables", "accepts a level above that is deeper", "p.depth[i] < p.depth[above]", "false",
            GateVectorsTest.class),
        in("Tables", "accepts groups in a chain that grants access to everybody",
            "grants[above] && p.starts[3 * i + 1] < p.starts[3 * i + 3]", "false", GateVectorsTest.class),
        in("Tables", "accepts services in a chain that grants access to everybody",
            "p.starts[3 * i + 1] < p.starts[3 * i + 3]", "p.starts[3 * i + 1] < p.starts[3 * i + 2]",
            GateVectorsTest.class),
        in("Tables", "looks for groups only at the level below the end of a chain", "grants[i] = grants[above];", "",
            GateVectorsTest.class),
        in("Tables", "accepts more levels than the path has", "lengths[i] > 2 * p.depth[i] + 1", "false",
            GateVectorsTest.class),
        in("Tables", "accepts an ACL of one queue for the names of several", "p.depth[p.ambiguous] > 0", "false",
            GateVectorsTest.class),
        in("Tables", "accepts chains that start deeper than their queues",
            "start != Partition.UNKNOWN_LEVEL && p.depth[start] > depths[i]", "false", GateVectorsTest.class),
        in("Tables", "ignores where the chains of created queues start",
            "start != Partition.UNKNOWN_LEVEL && p.depth[start] > depths[i]",
            "i < p.paths.length && p.depth[start] > depths[i]", GateVectorsTest.class),
        in("Partition", "leaves YuniKorn's recovery queue to the server",
            "return new Target(path, \"\", RECOVERY_LEVEL);",
            "return number == null ? null : new Target(path, \"\", RECOVERY_LEVEL);", GateVectorsTest.class));
  }

  private static Stream<Planted> clocks() {
    return Stream.of(
        in("Clock", "ignores suspensions",
            "suspended <= earlier.suspended + 2 * STEP_OF_FILE", "true", ClockTest.class),
        in("Clock", "takes a pause for a suspension",
            "monotonic.getAsLong() - now <= MAX_PAUSE", "true", ClockTest.class),
        in("Clock", "trusts the wall clock",
            "age < MAX_READING_AGE && -MAX_STEP < step && step < MAX_STEP", "-MAX_STEP < step && step < MAX_STEP",
            ClockTest.class),
        in("Users", "never requests groups again that it read without a clock",
            "now < Clock.FOREVER && now >= at", "now >= at", SessionTest.class));
  }

  private static Stream<Planted> records() {
    return Stream.of(
        Planted.in("writes words in the letters of the machine's language", "io/queuegate/DecisionRecord",
            "toLowerCase(Locale.ROOT)", "toLowerCase(Locale.getDefault())", DecisionRecordTest.class),
        Planted.in("writes that a question contains no groups if it says nothing", "io/queuegate/DecisionRecord",
            "if (question.groups() != null) {\n      record.addProperty(\"groups_in_request\", question.groups().size());",
            "{\n      record.addProperty(\"groups_in_request\", question.groups() == null ? 0 : 2);",
            DecisionRecordTest.class));
  }

  private static Stream<Planted> settings() {
    return Stream.of(
        in("SecretFiles", "accepts secrets that others can read",
            "permissions.contains(PosixFilePermission.OTHERS_READ)\n          || ", "", SecretFilesTest.class),
        in("SecretFiles", "accepts secrets that others can change",
            "\n          || permissions.contains(PosixFilePermission.OTHERS_WRITE)", "", SecretFilesTest.class));
  }

  @ParameterizedTest
  @MethodSource("faults")
  void aTestFinds(Planted fault) throws Exception {
    assertNotEquals(0, fault.failures(folder));
  }

  @Test
  void withoutAFaultTheTestsPass() throws Exception {
    Planted nothing =
        in("Session", "nothing", "private long lastPing;", "private long lastPing = 0;", SessionTest.class,
            BoundsTest.class, DecideTest.class, LivenessTest.class, LocalViewTest.class, ClockTest.class,
            TellingTest.class, DecisionRecordTest.class, GateCoreTest.class, GateVectorsTest.class,
            SecretFilesTest.class);
    assertEquals(0, nothing.failures(folder));
  }
}
