package io.queuegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.queuegate.Planted;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The tests of this module find faults that would grant or deny access wrongly, or stop YARN. */
class PlantedFaultsTest {
  @TempDir Path folder;

  private static Planted in(String source, String what, String line, String fault, Class<?>... tests) {
    return Planted.in(what, "io/queuegate/hadoop/" + source, line, fault, tests);
  }

  static Stream<Planted> faults() {
    return Stream.concat(groups(), decisions());
  }

  private static Stream<Planted> groups() {
    return Stream.of(
        in("GroupsCopy", "keeps groups that were looked up before an invalidation",
            "if (!loads.remove(user, this)) {", "if (!loads.remove(user, this) && false) {", GroupsCopyTest.class),
        in("GroupsCopy", "takes a failed look-up for a user without groups",
            "        fail();\n      }\n    }\n\n    private void keep",
            "        keep(new Entry(Collections.emptyList(), clock.getAsLong()));\n        end();\n      }\n    }\n\n"
                + "    private void keep", GroupsCopyTest.class),
        in("GroupsCopy", "uses invalidated groups",
            "wasUsed = entries.remove(user) != null;", "wasUsed = entries.containsKey(user);",
            GroupsCopyTest.class),
        in("GroupsCopy", "uses groups beyond their lifetime",
            "age <= lifetimeNanos", "entry != null", GroupsCopyTest.class),
        in("GroupsCopy", "counts the age of groups from the end of their look-up",
            "Collections.unmodifiableList(new ArrayList<>(groups)), began)",
            "Collections.unmodifiableList(new ArrayList<>(groups)), clock.getAsLong())", GroupsCopyTest.class),
        in("GroupsCopy", "keeps the groups of any number of users",
            "entries.size() >= maxUsers && any.hasNext()", "entries.size() < 0", GroupsCopyTest.class),
        in("GroupsCopy", "never repeats a look-up that no thread could start",
            "catch (Throwable error) { // the queue", "catch (IllegalStateException error) { // the queue",
            GroupsCopyTest.class),
        in("GroupsCopy", "keeps groups after the invalidation of all users",
            "      entries.clear();\n", "", GroupsCopyTest.class),
        in("HadoopGroupsGate", "ignores the invalidation of all users", "groups.invalidateAll();", "",
            GroupsCopyTest.class),
        in("ServerGroups", "gives Hadoop an empty list after a failure",
            "    if (groups == null) {\n      String fault",
            "    if (groups == null) {\n      groups = java.util.Collections.emptyList();\n    }\n"
                + "    if (groups == null) {\n      String fault", ServerGroupsTest.class),
        in("ServerGroups", "waits on the scheduler's threads", " && MUST_NOT_WAIT.get() == null", "",
            ServerGroupsTest.class),
        in("ClientLink", "waits for a directory that is away",
            "isConnected() && local.awaitsGroups(settings.partition, user)", "isConnected()",
            ClientLinkTest.class),
        in("ClientLink", "tells only the last listener of invalidations", "listeners.add(invalidate);",
            "listeners.clear();\n    listeners.add(invalidate);", ClientLinkTest.class),
        in("HadoopCache", "waits for Hadoop to look invalidated users up", "      checked.put(user, until);\n", "",
            HadoopCacheTest.class),
        in("HadoopCache", "lets Hadoop keep groups that have expired", "      if (hadGroups) {",
            "      if (false) {", HadoopCacheTest.class),
        in("HadoopCache", "takes a failed look-up for a user without groups",
            "groups != null && groups.isEmpty()", "groups == null || groups.isEmpty()", HadoopCacheTest.class),
        in("HadoopCache", "looks any number of users up", "if (checked.size() > MAX_LOOKUPS ||", "if (",
            HadoopCacheTest.class),
        in("HadoopCache", "does not look a few users up", "if (checked.size() > MAX_LOOKUPS ||",
            "if (!checked.isEmpty() ||", HadoopCacheTest.class),
        in("HadoopCache", "ends with the first error", "catch (Throwable error) { // the executor",
            "catch (IllegalStateException error) { // the executor", HadoopCacheTest.class),
        in("HadoopCache", "repeats look-ups that fail without a pause",
            "checkPausedUntil = clock.getAsLong() + PAUSE_NANOS", "checkPausedUntil = clock.getAsLong()",
            HadoopCacheTest.class),
        in("HadoopCache", "empties Hadoop's cache for each user", "refreshedAt = began;\n", "",
            HadoopCacheTest.class));
  }

  private static Stream<Planted> decisions() {
    return Stream.of(
        in("QueueDecider", "lets errors reach the ResourceManager",
            "catch (Throwable error) {\n      counters.failed(\"a decision", "catch (Exception error) {\n"
                + "      counters.failed(\"a decision", QueueDeciderTest.class),
        in("QueueDecider", "asks YARN's ACLs although the fallback is deny",
            "fallback == Fallback.YARN_ACL\n        && ", "", QueueDeciderTest.class),
        in("QueueDecider", "waits for groups on the scheduler's threads", "|| !mayWait ", "",
            QueueDeciderTest.class),
        in("QueueDecider", "waits for each check of a user", "|| isPaused(check.user)", "",
            QueueDeciderTest.class),
        in("QueueDecider", "loses interrupts", "Thread.currentThread().interrupt();", "",
            QueueDeciderTest.class),
        in("QueuegateYarnAuthorizer", "grants access before it is initialized",
            "if (current == null) {\n      return false;", "if (current == null) {\n      return true;",
            QueuegateYarnAuthorizerTest.class),
        in("QueuegateYarnAuthorizer", "denies what it cannot read without the fallback",
            "return current.fallBack(UNKNOWN_QUEUE, mayWait(), () -> super.checkPermission(request));",
            "return false;", QueuegateYarnAuthorizerTest.class),
        in("QueuegateYarnAuthorizer", "warns of no missing groups beside other mappings",
            "CompositeGroupsMapping.class.getName())", "\"\")", QueuegateYarnAuthorizerTest.class),
        in("QueuegateYarnAuthorizer", "ignores the service that acts for a user",
            "real == null ? \"\" : real.getShortUserName()", "\"\"", QueuegateYarnAuthorizerTest.class),
        in("QueuegateYarnAuthorizer", "takes administration for submission", "return Access.ADMIN;",
            "return Access.SUBMIT;", QueuegateYarnAuthorizerTest.class),
        in("QueuegateYarnAuthorizer", "waits on any thread",
            "Server.isRpcInvocation() || Thread.currentThread().getName().startsWith(\"qtp\")", "true",
            QueuegateYarnAuthorizerTest.class),
        in("QueuegateYarnAuthorizer", "waits for groups in other decisions of YARN",
            "ServerGroups.decision(() -> super.checkPermission(request), mayWait())",
            "super.checkPermission(request)", QueuegateYarnAuthorizerTest.class),
        in("StartCheck", "starts without the rights that it needs", "if (fault != null) {", "if (false) {",
            QueuegateYarnAuthorizerTest.class),
        in("ClientLink", "hides that state is stale", "if (decision.stale()) {", "if (false) {",
            ClientLinkTest.class),
        in("Settings", "chooses a fallback", "    if (fallback == null) {", "    if (false) {",
            QueuegateYarnAuthorizerTest.class, SettingsTest.class),
        in("Settings", "reads a token that others can read",
            "secretFile(Key.TOKEN_FILE)", "text(Key.TOKEN_FILE)", SettingsTest.class),
        in("Settings", "reads a private key that others can read",
            "secretFile(Key.TLS_KEY_FILE)", "text(Key.TLS_KEY_FILE)", SettingsTest.class),
        in("Settings", "ignores keys that it does not know", "for (String unknown : texts.keySet()) {",
            "for (String unknown : new String[0]) {", SettingsTest.class));
  }

  @ParameterizedTest
  @MethodSource("faults")
  void aTestFinds(Planted fault) throws Exception {
    assertNotEquals(0, fault.failures(folder));
  }

  @Test
  void withoutAFaultTheTestsPass() throws Exception {
    Planted nothing =
        in("GroupsCopy", "nothing", "private long purgedAt;", "private long purgedAt = 0;",
            GroupsCopyTest.class, HadoopCacheTest.class, ServerGroupsTest.class, ClientLinkTest.class,
            QueueDeciderTest.class, QueuegateYarnAuthorizerTest.class, SettingsTest.class);
    assertEquals(0, nothing.failures(folder));
  }
}
