package io.queuegate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.queuegate.v1.ResolveOutcome;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Every call of a real server. */
class ClientServerTest {
  @TempDir Path folder;

  @Test
  void everyCall() throws Exception {
    Path settings =
        Server.write(
            folder.resolve("queuegate.yaml"),
            "listen: [127.0.0.1:0]\n"
                + "callers: {loopback: {roles: [check, read, admin]}}\n"
                + "policy: {path: " + Server.example("queues.yaml") + "}\n");
    try (Server server = Server.start("--config", settings.toString());
        Client client = server.connect()) {
      String queue = "root.analytics.reports";
      Check sue = Check.of("sue", queue);
      assertEquals(new Decision(true, Reason.USER, queue, "sue", 1, "", false), client.check(sue));
      Check john = Check.of("john", queue + ".new").withGroups(Collections.singleton("g"));
      Decision denied = new Decision(false, Reason.NO_MATCH, "", "", 1, queue, false);
      assertEquals(denied, client.check(john));
      assertEquals(denied, client.checkMany(Arrays.asList(sue, john)).get(1).get());
      Check below = Check.of("sue", "root.analytics");
      assertEquals(Collections.singletonList(queue), client.listQueues(below));
      assertTrue(client.listQueues(Check.of("sue", "")).size() > 1);
      assertEquals(
          ResolveOutcome.RESOLVE_OUTCOME_RESOLVED, client.resolve("sue", "").getOutcome());
      QueuegateException.InvalidArgument tooLong =
          assertThrows(
              QueuegateException.InvalidArgument.class,
              () -> client.check(Check.of(String.join("", Collections.nCopies(2_000, "u")), "root")));
      assertEquals("user.user", tooLong.violations().get(0).field());
      assertThrows(
          QueuegateException.UnknownPartition.class, () -> client.check(sue.withPartition("tpu")));
    }
  }

  @Test
  void queueVectors() throws Exception {
    JsonArray documents =
        Repository.vectors("queue_vectors.json").getAsJsonObject().getAsJsonArray("documents");
    Path policy = Server.write(folder.resolve("queues.yaml"), yaml(documents.get(0)));
    try (Server server = Server.of(policy);
        Client client = server.connect();
        Gate gate = server.gate()) {
      int tried = 0;
      for (JsonElement document : documents) {
        Server.write(policy, yaml(document));
        assertTrue(Admin.reload(client, false).getSucceeded());
        for (JsonElement each : document.getAsJsonObject().getAsJsonArray("questions")) {
          JsonObject asked = each.getAsJsonObject();
          String id = text(asked, "id");
          Check question = question(asked);
          Decision want = null;
          Class<?> failed = null;
          try {
            want = client.check(question);
            expectVector(id, asked, want);
            Server.expect(gate, id, question, want);
            tried++;
          } catch (QueuegateException error) {
            failed = error.getClass();
            boolean isUnknown = text(asked, "error").equals("partition_not_found");
            assertEquals(
                isUnknown
                    ? QueuegateException.UnknownPartition.class
                    : QueuegateException.InvalidArgument.class,
                failed,
                id);
          }
          if (question.user().isEmpty()) {
            continue;
          }
          for (List<Result> results :
              Arrays.asList(
                  client.checkMany(Collections.nCopies(3, question)),
                  client.checkMany(Collections.nCopies(Columns.MIN_QUESTIONS, question)),
                  gate.checkMany(Collections.nCopies(3, question)))) {
            Result last = results.get(2);
            assertEquals(failed, last.error() == null ? null : last.error().getClass(), id);
            assertEquals(want, last.error() == null ? last.get() : null, id);
          }
        }
      }
      assertTrue(tried > 100, String.valueOf(tried));
    }
  }

  /** The deviations are documented in DEVIATIONS.md. */
  private static void expectVector(String id, JsonObject asked, Decision decision) {
    String queue = text(asked, "queue");
    boolean isRecovery = queue.startsWith("root.@recovery@.") && text(asked, "access").equals("submit");
    boolean areResolved = texts(asked, "groups").isEmpty() && decision.reason() == Reason.GROUP;
    if (areResolved) { // to the user's own name
      assertEquals(text(asked, "user"), decision.matchedSubject(), id);
    } else {
      assertEquals(asked.get("allowed").getAsBoolean() && !isRecovery, decision.allowed(), id);
    }
  }

  private static Check question(JsonObject asked) {
    Check check =
        Check.of(text(asked, "user"), text(asked, "queue"))
            .withPartition(text(asked, "partition"))
            .withAccess(text(asked, "access").equals("admin") ? Access.ADMIN : Access.SUBMIT);
    List<String> groups = texts(asked, "groups");
    return groups.isEmpty() ? check : check.withGroups(groups);
  }

  private static String yaml(JsonElement document) {
    return document.getAsJsonObject().get("yaml").getAsString();
  }

  private static String text(JsonObject object, String name) {
    return object.has(name) && !object.get(name).isJsonNull() ? object.get(name).getAsString() : "";
  }

  private static List<String> texts(JsonObject object, String name) {
    List<String> texts = new ArrayList<>();
    if (object.has(name) && object.get(name).isJsonArray()) {
      object.getAsJsonArray(name).forEach(each -> texts.add(each.getAsString()));
    }
    return texts;
  }

  @Test
  void unixSockets() throws Exception {
    Path policy = Server.write(folder.resolve("queues.yaml"), Server.yaml("alice"));
    String socket = "unix:" + folder.resolve("socket");
    try (Server server =
            Server.of(policy, "--listen", socket, "--set", "callers.unix.roles=check,read,admin,sync");
        Gate gate =
            Server.live(
                Gate.open(
                    GateConfig.builder()
                        .client(ClientConfig.builder().address(socket).timeout(Server.PATIENT).build())
                        .build()))) {
      assertTrue(gate.client().check(Check.of("alice", "root")).allowed());
      assertTrue(gate.checkLocally(Check.of("alice", "root")).allowed());
    }
  }
}
