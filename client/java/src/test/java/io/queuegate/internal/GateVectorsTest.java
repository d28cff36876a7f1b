package io.queuegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.queuegate.Access;
import io.queuegate.Decision;
import io.queuegate.Repository;
import io.queuegate.v1.PolicyPart;
import io.queuegate.v1.SyncResponse;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;

/** Vectors of policies that a server has compiled, and of tables that no server sends. */
class GateVectorsTest {
  @Test
  void vectors() throws Exception {
    JsonArray vectors = Repository.vectors("gate_vectors.json").getAsJsonArray();
    int asked = 0;
    for (JsonElement each : vectors) {
      JsonObject vector = each.getAsJsonObject();
      Partition partition = received(Collections.singletonList(member(vector, "policy")));
      for (JsonElement question : member(vector, "questions").getAsJsonArray()) {
        expect(partition, question.getAsJsonArray());
        asked++;
      }
    }
    assertTrue(vectors.size() >= 100 && asked >= 1_000, vectors.size() + " " + asked);
  }

  /** Tables that no server sends, of which the gates of all languages make the same. */
  @Test
  void oddTables() throws Exception {
    int refused = 0;
    int asked = 0;
    for (JsonElement each : Repository.vectors("odd_table_vectors.json").getAsJsonArray()) {
      JsonObject vector = each.getAsJsonObject();
      String name = member(vector, "name").getAsString();
      JsonArray parts = member(vector, "parts").getAsJsonArray();
      if (member(vector, "questions").isJsonNull()) {
        assertThrows(ProtocolFault.class, () -> received(parts), name);
        refused++;
        continue;
      }
      Partition partition = received(parts);
      for (JsonElement question : member(vector, "questions").getAsJsonArray()) {
        expect(partition, question.getAsJsonArray());
        asked++;
      }
    }
    assertTrue(refused >= 70 && asked >= 70, refused + " " + asked);
  }

  /** Returns what a gate makes of the parts of a policy. */
  private static Partition received(Iterable<JsonElement> parts) throws Exception {
    World w = new World();
    w.session.open();
    w.receive(World.opened());
    String name = "";
    for (JsonElement each : parts) {
      PolicyPart part = PolicyPart.parseFrom(Base64.getDecoder().decode(each.getAsString()));
      name = part.getPartition();
      w.session.receive(SyncResponse.newBuilder().setPolicy(part).build(), w.now);
    }
    return w.replica.state().policies.get(name).partition;
  }

  private static JsonElement member(JsonObject object, String name) {
    return object.get(name);
  }

  /** The user, queue, access, groups (null if unknown), and the decision: empty if it needs groups. */
  private static void expect(Partition partition, JsonArray question) {
    Access access = question.get(2).getAsString().equals("admin") ? Access.ADMIN : Access.SUBMIT;
    List<String> groups = question.get(3).isJsonNull() ? null : texts(question.get(3).getAsJsonArray());
    Partition.Target target = partition.locate(question.get(1).getAsString(), access);
    assertEquals(question.get(4).isJsonNull(), target == null, question.toString());
    if (target == null) {
      return;
    }
    Decision decision = partition.decide(target, question.get(0).getAsString(), groups, "", 0);
    JsonArray wanted = question.get(4).getAsJsonArray();
    List<String> got =
        decision == null
            ? new ArrayList<>()
            : Arrays.asList(
                String.valueOf(decision.allowed()),
                decision.reason().name().toLowerCase(Locale.ROOT),
                decision.matchedQueue(),
                decision.matchedSubject(),
                decision.evaluatedQueue());
    assertEquals(texts(wanted), got, question.toString());
  }

  private static List<String> texts(JsonArray array) {
    List<String> texts = new ArrayList<>();
    array.forEach(each -> texts.add(each.getAsString()));
    return texts;
  }
}
