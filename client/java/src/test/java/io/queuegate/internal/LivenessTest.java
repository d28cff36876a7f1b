package io.queuegate.internal;

import static io.queuegate.internal.World.opened;
import static io.queuegate.internal.World.pong;
import static io.queuegate.internal.World.removed;
import static io.queuegate.internal.World.whole;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.queuegate.v1.SyncResponse;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Streams of servers that are silent, or useless, end. */
class LivenessTest {
  @Test
  void progressKeepsAStream() {
    Liveness liveness = new Liveness(Collections.emptyList());
    for (int round = 0; round < 3; round++) {
      liveness.note(pong(1), true);
      for (int i = 1; i < Liveness.MAX_SILENT_LOOKS; i++) {
        assertNull(liveness.look());
      }
    }
    assertEquals("the server has not responded to a ping for 3 s", liveness.look());
  }

  @Test
  void policiesWithoutPongsDoNot() {
    Liveness liveness = new Liveness(Collections.emptyList());
    for (int i = 1; i < Liveness.MAX_UNANSWERED_LOOKS; i++) {
      liveness.note(whole("default", "alice"), true);
      assertNull(liveness.look());
    }
    liveness.note(opened(), true);
    assertEquals("the server has not responded to a ping for 120 s", liveness.look());
  }

  static Stream<Arguments> pongsWithoutAPolicy() {
    List<String> none = Collections.emptyList();
    SyncResponse one = opened(o -> o.addPartitions("gpu"));
    SyncResponse two = opened(o -> o.addPartitions("gpu").addPartitions("cpu"));
    return Stream.of(
        Arguments.of("all partitions", none, Arrays.asList(one), false, false),
        Arguments.of("one of the server", Arrays.asList("gpu"), Arrays.asList(one), false, false),
        Arguments.of("one of two", Arrays.asList("gpu", "cpu"), Arrays.asList(two, removed("cpu")), false, false),
        Arguments.of("one that it lacks", Arrays.asList("tpu"), Arrays.asList(one), false, true),
        Arguments.of("a removed one", Arrays.asList("gpu"), Arrays.asList(one, removed("gpu")), false, true),
        Arguments.of("with a policy", none, Arrays.asList(one), true, true));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource
  void pongsWithoutAPolicy(
      String name, List<String> named, List<SyncResponse> before, boolean hasPolicy, boolean isKept) {
    Liveness liveness = new Liveness(named);
    before.forEach(each -> liveness.note(each, false));
    String fault = null;
    for (int i = 0; i < 3 * Liveness.MAX_SILENT_LOOKS && fault == null; i++) {
      liveness.note(pong(1), hasPolicy);
      fault = liveness.look();
    }
    String want = "the server responds to pings but has sent no complete policy for 3 s";
    assertEquals(isKept ? null : want, fault, name);
  }
}
