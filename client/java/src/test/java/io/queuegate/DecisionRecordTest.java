package io.queuegate;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Instant;
import java.util.Arrays;
import java.util.Collections;
import java.util.Locale;
import org.junit.jupiter.api.Test;

/** Records have the keys of the server's audit records. */
public class DecisionRecordTest {
  private static final String START =
      "{\"time\":\"2026-11-21T14:15:15.701522Z\",\"caller\":\"gate:shim\",\"method\":\"CheckQueueAccess\",";

  private static String json(Check question, Decision decision) {
    Instant time = Instant.parse("2026-11-21T14:15:15.701522999Z");
    return new DecisionRecord("shim", time, question, decision).json();
  }

  @Test
  void keys() {
    Decision allowed = new Decision(true, Reason.USER, "root", "alice", 1, "", false);
    assertEquals(
        START
            + "\"user\":\"alice\",\"partition\":\"default\",\"groups_in_request\":2,\"queue\":\"root\","
            + "\"access\":\"submit\",\"decision\":\"allowed\",\"reason\":\"user\",\"matched_queue\":\"root\","
            + "\"matched_name\":\"alice\",\"revision\":1}",
        json(Check.of("alice", "root").withGroups(Arrays.asList("g", "h")), allowed));
    Decision denied = new Decision(false, Reason.NO_MATCH, "", "", 2, "root", true);
    Check question = Check.of("b\"ob\n", "root.new").withPartition("[rm]gpu").withAccess(Access.ADMIN);
    String rest =
        "\"queue\":\"root.new\",\"access\":\"admin\",\"decision\":\"denied\",\"reason\":\"no_match\","
            + "\"matched_queue\":\"\",\"matched_name\":\"\",\"revision\":2,\"stale\":true}";
    String bob = START + "\"user\":\"b\\\"ob\\n\",\"partition\":\"gpu\",";
    assertEquals(bob + rest, json(question, denied));
    assertEquals(
        bob + "\"groups_in_request\":0," + rest,
        json(question.withGroups(Collections.<String>emptyList()), denied));
  }

  @Test
  void languagesChangeNothing() {
    Locale before = Locale.getDefault();
    try {
      for (String language : new String[] {"tr", "ar-EG-u-nu-arab"}) { // an i without a dot; other digits
        Locale.setDefault(Locale.forLanguageTag(language));
        keys();
      }
    } finally {
      Locale.setDefault(before);
    }
  }
}
