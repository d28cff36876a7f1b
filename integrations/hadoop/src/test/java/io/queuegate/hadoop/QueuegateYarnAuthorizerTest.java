package io.queuegate.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.security.Groups;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.authorize.AccessControlList;
import org.apache.hadoop.yarn.security.AccessRequest;
import org.apache.hadoop.yarn.security.AccessType;
import org.apache.hadoop.yarn.security.Permission;
import org.apache.hadoop.yarn.security.PrivilegedEntity;
import org.apache.hadoop.yarn.security.PrivilegedEntity.EntityType;
import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.spi.LoggingEvent;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class QueuegateYarnAuthorizerTest {
  private static final AtomicInteger PARTITIONS = new AtomicInteger();
  private static final UserGroupInformation ALICE = UserGroupInformation.createRemoteUser("alice");

  private final ScriptedLink link = ScriptedLink.answering(Answer.ALLOWED);
  private final QueuegateYarnAuthorizer authorizer = new QueuegateYarnAuthorizer(settings -> link);

  /** Returns settings of a partition of their own, since equal settings share a connection. */
  private static Configuration settings(String fallback) {
    return SettingsTest.with(
        "queuegate.partition", "p" + PARTITIONS.incrementAndGet(),
        "queuegate.fallback", fallback,
        "queuegate.start-timeout", "50ms",
        "hadoop.security.group.mapping", "io.queuegate.hadoop.QueuegateGroupsMapping");
  }

  private static AccessRequest request(UserGroupInformation user, EntityType type, AccessType access) {
    return new AccessRequest(
        new PrivilegedEntity(type, "root.a"), user, access, null, null, "127.0.0.1",
        Collections.emptyList());
  }

  private static AccessRequest submission() {
    return request(ALICE, EntityType.QUEUE, AccessType.SUBMIT_APP);
  }

  private void setAcl(String submitters) {
    Map<AccessType, AccessControlList> acls =
        Collections.singletonMap(AccessType.SUBMIT_APP, new AccessControlList(submitters));
    authorizer.setPermission(
        Collections.singletonList(new Permission(new PrivilegedEntity(EntityType.QUEUE, "root.a"), acls)),
        ALICE);
  }

  static Stream<Arguments> questions() {
    UserGroupInformation behind = UserGroupInformation.createProxyUser("alice",
        UserGroupInformation.createRemoteUser("livy"));
    return Stream.of(
        arguments(ALICE, AccessType.SUBMIT_APP, "alice/ root.a SUBMIT null"),
        arguments(ALICE, AccessType.ADMINISTER_QUEUE, "alice/ root.a ADMIN null"),
        arguments(behind, AccessType.SUBMIT_APP, "alice/livy root.a SUBMIT null"));
  }

  @ParameterizedTest
  @MethodSource("questions")
  void asksTheGate(UserGroupInformation user, AccessType access, String question) {
    authorizer.init(settings("deny"));
    link.questions.clear();
    assertTrue(authorizer.checkPermission(request(user, EntityType.QUEUE, access)));
    assertEquals(Collections.singletonList(question), link.questions);
  }

  @Test
  void warmsUpWhenItStarts() {
    authorizer.init(settings("deny"));
    assertEquals(1, link.questions.size());
  }

  @Test
  void yarnDecidesOtherQuestionsAlone() {
    authorizer.init(settings("deny"));
    link.questions.clear();
    setAcl("*");
    authorizer.checkPermission(request(ALICE, EntityType.QUEUE, AccessType.APPLICATION_MAX_PRIORITY));
    assertEquals(0, link.questions.size());
  }

  @Test
  void otherDecisionsOfYarnWaitForGroupsOnThreadsOfCallsOnly() throws InterruptedException {
    authorizer.init(settings("deny"));
    ServerGroups mapping = new ServerGroups(link, Duration.ofSeconds(2));
    AccessControlList ofGroup = new AccessControlList(" dev") {
      @Override
      public boolean isUserAllowed(UserGroupInformation user) {
        try {
          return mapping.of(user.getShortUserName()).contains("dev");
        } catch (IOException failed) {
          return false; // as Hadoop does
        }
      }
    };
    authorizer.setPermission(Collections.singletonList(new Permission(
        new PrivilegedEntity(EntityType.QUEUE, "root.a"),
        Collections.singletonMap(AccessType.APPLICATION_MAX_PRIORITY, ofGroup))), ALICE);
    AccessRequest priority = request(ALICE, EntityType.QUEUE, AccessType.APPLICATION_MAX_PRIORITY);
    assertFalse(authorizer.checkPermission(priority));
    assertEquals(Collections.emptyList(), link.waits);
    Thread http = new Thread(() -> authorizer.checkPermission(priority), "qtp1-2");
    http.start();
    http.join();
    assertEquals(Collections.singletonList("alice 2000"), link.waits);
  }

  @Test
  void theFallbackDecidesWithoutALease() {
    link.answers.clear();
    link.answers.add(Answer.UNDECIDED);
    authorizer.init(settings("yarn-acl"));
    setAcl("alice");
    assertTrue(authorizer.checkPermission(submission()));
    setAcl("bob");
    assertFalse(authorizer.checkPermission(submission()));
  }

  @Test
  void denyIgnoresYarnsAcls() {
    link.answers.clear();
    link.answers.add(Answer.UNDECIDED);
    authorizer.init(settings("deny"));
    setAcl("*");
    assertFalse(authorizer.checkPermission(submission()));
    assertEquals(1, link.fallbacks.getAsLong(), "the server learns it");
  }

  @Test
  void throwsNothing() {
    authorizer.init(settings("deny"));
    link.error = new StackOverflowError();
    assertFalse(authorizer.checkPermission(submission()));
    assertFalse(authorizer.checkPermission(null));
  }

  @Test
  void theFallbackDecidesAQuestionThatCannotBeRead() {
    authorizer.init(settings("yarn-acl"));
    AccessRequest unreadable = request(null, EntityType.QUEUE, AccessType.SUBMIT_APP);
    setAcl("bob");
    assertFalse(authorizer.checkPermission(unreadable));
    setAcl("*");
    assertTrue(authorizer.checkPermission(unreadable));
  }

  @Test
  void yarnsSettingsSayWhoAdministersTheCluster() {
    Configuration configuration = settings("deny");
    configuration.set("yarn.admin.acl", "alice");
    authorizer.init(configuration);
    assertTrue(authorizer.isAdmin(ALICE));
    assertFalse(authorizer.isAdmin(UserGroupInformation.createRemoteUser("bob")));
    assertFalse(authorizer.isAdmin(null));
  }

  @Test
  void deniesBeforeInit() {
    assertFalse(authorizer.checkPermission(submission()));
  }

  @Test
  void doesNotStartWithoutAChosenFallback() {
    Configuration configuration = settings("deny");
    configuration.unset("queuegate.fallback");
    Exception error =
        assertThrows(IllegalArgumentException.class, () -> authorizer.init(configuration));
    assertTrue(error.getMessage().startsWith("queuegate.fallback must be set"), error.getMessage());
  }

  @Test
  void doesNotStartWithoutRights() {
    link.fault = "planted";
    Exception error =
        assertThrows(IllegalStateException.class, () -> authorizer.init(settings("deny")));
    assertEquals("queuegate cannot decide: planted", error.getMessage());
  }

  @Test
  void needsTheRightToStateGroupsOnlyIfItStatesThem() {
    link.faultOfStatedGroups = "planted";
    authorizer.init(settings("deny"));
    Configuration ofHadoop = settings("deny");
    ofHadoop.unset("hadoop.security.group.mapping");
    assertThrows(IllegalStateException.class,
        () -> new QueuegateYarnAuthorizer(settings -> link).init(ofHadoop));
  }

  @Test
  void startsWithTheFallbackIfTheServerDoesNotAnswer() {
    link.isLive = false;
    link.answers.clear();
    link.answers.add(Answer.UNDECIDED);
    authorizer.init(settings("yarn-acl"));
    setAcl("alice");
    assertTrue(authorizer.checkPermission(submission()));
  }

  static Stream<Arguments> compositeMappings() {
    return Stream.of(
        arguments("yarn-acl", "corp,queuegate", true),
        arguments("yarn-acl", "corp", false),
        arguments("deny", "corp,queuegate", false));
  }

  @ParameterizedTest
  @MethodSource("compositeMappings")
  void warnsOfAFallbackThatLacksTheGroupsOfACompositeMapping(
      String fallback, String providers, boolean isWarned) {
    // Hadoop creates its mapping once. This one needs no server.
    Groups.getUserToGroupsMappingServiceWithLoadedConfiguration(new Configuration(false));
    Configuration configuration = settings(fallback);
    String mapping = "hadoop.security.group.mapping";
    configuration.set(mapping, "org.apache.hadoop.security.CompositeGroupsMapping");
    configuration.set(mapping + ".providers", providers);
    configuration.set(mapping + ".provider.corp", "org.apache.hadoop.security.LdapGroupsMapping");
    configuration.set(mapping + ".provider.queuegate", "io.queuegate.hadoop.QueuegateGroupsMapping");
    List<String> logged = new ArrayList<>();
    Logger log = Logger.getLogger(QueuegateYarnAuthorizer.class);
    AppenderSkeleton appender = new AppenderSkeleton() {
      @Override
      protected void append(LoggingEvent event) {
        logged.add(event.getLevel() + " " + event.getRenderedMessage());
      }

      @Override
      public void close() {}

      @Override
      public boolean requiresLayout() {
        return false;
      }
    };
    log.setLevel(Level.WARN);
    log.addAppender(appender);
    try {
      authorizer.init(configuration);
    } finally {
      log.removeAppender(appender);
      log.setLevel(null);
    }
    String start = "WARN queuegate.fallback is yarn-acl, and Hadoop takes groups from queuegate.";
    assertEquals(isWarned ? 1 : 0, logged.stream().filter(each -> each.startsWith(start)).count(), logged.toString());
  }

  @Test
  void waitsForGroupsOnThreadsOfCallsOnly() throws InterruptedException {
    link.answers.clear();
    link.answers.add(Answer.GROUPS_UNKNOWN);
    authorizer.init(settings("deny"));
    authorizer.checkPermission(submission());
    assertEquals(0, link.waits.size());
    Thread http = new Thread(() -> authorizer.checkPermission(submission()), "qtp1-2");
    http.start();
    http.join();
    assertEquals(Collections.singletonList("alice 500"), link.waits);
  }

  @Test
  void statesHadoopsGroupsWhereItsMappingIsAnother() throws InterruptedException {
    Configuration configuration = settings("deny");
    configuration.unset("hadoop.security.group.mapping");
    configuration.set("hadoop.user.group.static.mapping.overrides", "alice=dev,ops");
    Groups.getUserToGroupsMappingServiceWithLoadedConfiguration(configuration);
    authorizer.init(configuration);
    String question = "";
    for (int i = 0; i < 500 && !question.endsWith("[dev, ops]"); i++) {
      Thread.sleep(10);
      authorizer.checkPermission(submission());
      List<String> questions = link.questions;
      question = questions.get(questions.size() - 1);
    }
    assertEquals("alice/ root.a SUBMIT [dev, ops]", question);
  }
}
