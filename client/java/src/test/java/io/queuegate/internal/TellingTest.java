package io.queuegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.queuegate.Check;
import io.queuegate.LogListener;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** A gate passes each decision to its program. */
class TellingTest {
  private static final Check ALICE = Check.of("alice", "root");
  private final List<String> told = new ArrayList<>();

  private World world(Runnable program) {
    World world =
        new World(
            (question, decision) -> {
              told.add(question.user() + " " + decision.allowed() + " " + decision.stale());
              program.run();
            });
    return world.live(World.whole("default", "alice"));
  }

  @Test
  void eachDecisionIsTold() {
    World w = world(() -> {});
    w.decider.decide(ALICE);
    w.decider.decide(ALICE); // cached
    w.decider.decideWithoutGroups(ALICE);
    w.decider.decide(Check.of("eve", "nowhere"));
    w.decider.setGrace(World.HOUR);
    w.now += 10 * World.SECOND;
    w.decider.decide(ALICE);
    assertEquals(
        Arrays.asList("alice true false", "alice true false", "alice true false", "alice true true"), told);
  }

  /** A decision is void if its policy is replaced or its lease expires before the program has taken it. */
  @Test
  void aProgramThatTakesTime() {
    List<Consumer<World>> changes =
        Arrays.asList(
            w -> w.receive(World.whole("default", "bob")), w -> w.now += 5 * World.SECOND, w -> {});
    for (Consumer<World> change : changes) {
      told.clear();
      World[] w = new World[1];
      w[0] = world(() -> change.accept(w[0]));
      assertEquals(change != changes.get(2), w[0].decider.decide(ALICE) == null);
      assertEquals(Collections.singletonList("alice true false"), told);
    }
  }

  @Test
  void aProgramThatFails() {
    List<String> logged = new ArrayList<>();
    LogListener listener = new LogListener(logged::add);
    try {
      World w =
          world(
              () -> {
                throw new StackOverflowError("planted");
              });
      assertTrue(w.decider.decide(ALICE).allowed());
      assertFalse(w.decider.decide(ALICE.withAccess(io.queuegate.Access.ADMIN)).allowed());
      assertNull(w.decider.decide(Check.of("eve", "nowhere")));
    } finally {
      listener.close();
    }
    assertEquals(Collections.singletonList("The listener of a gate's decisions has failed."), logged);
  }
}
