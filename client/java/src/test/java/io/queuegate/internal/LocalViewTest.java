package io.queuegate.internal;

import static io.queuegate.internal.World.HOUR;
import static io.queuegate.internal.World.SECOND;
import static io.queuegate.internal.World.forget;
import static io.queuegate.internal.World.opened;
import static io.queuegate.internal.World.userGroups;
import static io.queuegate.internal.World.whole;
import static io.queuegate.v1.ResolveOutcome.RESOLVE_OUTCOME_NOT_FOUND;
import static io.queuegate.v1.ResolveOutcome.RESOLVE_OUTCOME_RESOLVED;
import static io.queuegate.v1.ResolveOutcome.RESOLVE_OUTCOME_UNAVAILABLE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.LocalGate.Rights;
import io.queuegate.Reason;
import io.queuegate.v1.GateCounts;
import io.queuegate.v1.SyncOpened;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A view of the state of a gate, for callers that must not wait. */
class LocalViewTest {
  private final World w = new World().live(whole("default", "alice staff"));
  private final LocalView view = new LocalView(w.replica, w.wants, w.decider, () -> w.now);

  private Reason withoutGroups(String user) {
    Decision decision = view.checkWithoutGroups(Check.of(user, "root"));
    return decision == null ? null : decision.reason();
  }

  @Test
  void decidesOnlyWhatDoesNotDependOnGroups() {
    assertEquals(Reason.USER, withoutGroups("alice"));
    assertNull(withoutGroups("sam"));
    assertEquals(Collections.emptyList(), w.taken()); // it requests no groups
    w.expect("sam", "root", null);
    w.give("sam", HOUR, "staff");
    w.expect("sam", "root", Reason.GROUP);
    assertNull(withoutGroups("sam"), "a decision that was made with groups");
    w.now += 5 * SECOND;
    assertNull(withoutGroups("alice"), "no lease");
  }

  @Test
  void theServerLearnsWhatWasDecided() {
    w.session.introduce(World.SECOND, "scheduler/1", view::counts);
    assertEquals(Reason.USER, withoutGroups("alice"));
    w.decider.setGrace(HOUR);
    w.now += 5 * SECOND;
    assertEquals(Reason.USER, withoutGroups("alice"));
    GateCounts.Builder counts = GateCounts.newBuilder().setDecided(2).setStale(1);
    assertEquals(counts.build(), w.session.ping(w.now).getPing().getCounts());
    view.countFallbacks(() -> 7);
    assertEquals(counts.setFallbacks(7).build(), w.session.ping(w.now).getPing().getCounts());
    view.countFallbacks(
        () -> {
          throw new IllegalStateException("planted");
        });
    assertEquals(counts.clearFallbacks().build(), w.session.ping(w.now).getPing().getCounts());
  }

  @Test
  void thePolicyIsAsOldAsTheLastConfirmedQuestion() {
    assertEquals(0, view.policyAgeMillis());
    w.now += 7 * SECOND;
    assertEquals(7_000, view.policyAgeMillis());
    w.renew();
    assertEquals(0, view.policyAgeMillis());
    w.now = Clock.FOREVER;
    assertEquals(-1, view.policyAgeMillis(), "the clock cannot be read");
    World empty = new World();
    LocalView other = new LocalView(empty.replica, empty.wants, empty.decider, () -> empty.now);
    assertEquals(-1, other.policyAgeMillis());
    empty.session.open();
    empty.receive(opened());
    empty.renew();
    assertEquals(-1, other.policyAgeMillis(), "no policy");
  }

  @Test
  void groupsAreRequestedOnceAndValidUnderALease() {
    assertNull(view.groups("default", "sam"));
    assertNull(view.groups("default", "sam"));
    assertEquals(Collections.singletonList("sam"), w.taken());
    w.receive(userGroups("sam", RESOLVE_OUTCOME_RESOLVED, HOUR, "a", "b"));
    assertEquals(Arrays.asList("a", "b"), view.groups("default", "sam"));
    assertEquals(Arrays.asList("a", "b"), view.groups("", "sam"));
    assertNull(view.groups("other", "sam"));
    w.now += 5 * SECOND;
    assertNull(view.groups("default", "sam"), "no lease");
    w.renew();
    assertEquals(Arrays.asList("a", "b"), view.groups("default", "sam"));
    w.receive(forget("default", "sam"));
    assertNull(view.groups("default", "sam"));
  }

  @Test
  void anUnknownUserHasNoGroupsAndAFailureIsUnknown() {
    view.groups("default", "nobody");
    view.groups("default", "dora");
    assertTrue(view.awaitsGroups("default", "dora"));
    w.taken();
    assertTrue(view.awaitsGroups("default", "dora"));
    w.receive(
        userGroups("nobody", RESOLVE_OUTCOME_NOT_FOUND, HOUR),
        userGroups("dora", RESOLVE_OUTCOME_UNAVAILABLE, HOUR));
    assertEquals(Collections.emptyList(), view.groups("default", "nobody"));
    assertNull(view.groups("default", "dora"));
    assertFalse(view.awaitsGroups("default", "dora"), "the server has answered");
  }

  @Test
  void nobodyAwaitsASilentServer() {
    view.groups("default", "sam");
    w.session.ping(w.now);
    w.now += LocalView.SILENCE - 1;
    assertTrue(view.awaitsGroups("default", "sam"));
    w.session.ping(w.now);
    w.now++;
    assertFalse(view.awaitsGroups("default", "sam"), "a later ping changes nothing");
    w.renew();
    assertTrue(view.awaitsGroups("default", "sam"));
    w.session.ping(w.now);
    w.now += LocalView.SILENCE;
    w.session.open();
    view.groups("default", "sam");
    assertTrue(view.awaitsGroups("default", "sam"), "a new stream");
  }

  @Test
  void aListenerLearnsOfInvalidations() {
    List<String> heard = new ArrayList<>();
    view.onInvalidation("default", heard::add);
    w.receive(forget("default", "sam", "eve"), forget("other", "sam"), forget("default"));
    assertEquals(Arrays.asList("sam", "eve", null), heard);
    heard.clear();
    w.session.reset(Collections.singletonList("default"));
    assertEquals(Collections.emptyList(), heard, "the server lets the gate keep its groups");
    w.session.reset(Collections.emptyList());
    assertEquals(Collections.singletonList((String) null), heard);
  }

  @Test
  void rightsAreKnownOnceTheServerHasSentItsPolicies() {
    assertNull(view.rights("default"));
    view.noteOpened(SyncOpened.getDefaultInstance());
    assertNull(view.rights("default"));
    view.notePong();
    Rights rights = view.rights("default");
    assertTrue(rights.decide() && rights.stateGroups() && rights.hasPartition() && rights.knowsRules());
    assertFalse(view.rights("other").hasPartition());
    w.receive(opened(to -> to.setLocalDecisions(false).setAssertGroups(false)));
    rights = view.rights("default");
    assertFalse(rights.decide() || rights.stateGroups());
    view.noteEnd(Status.Code.PERMISSION_DENIED);
    assertNull(view.rights("default"));
    assertEquals(Status.Code.PERMISSION_DENIED, view.lastFailure());
    view.noteOpened(SyncOpened.getDefaultInstance());
    assertNull(view.lastFailure());
  }

  @Test
  void fewPartitionsOfTheServerAreKept() {
    assertEquals(Collections.emptyList(), view.partitions());
    view.noteOpened(SyncOpened.newBuilder().addPartitions("hadoop").build());
    assertEquals(Collections.singletonList("hadoop"), view.partitions());
    view.noteOpened(SyncOpened.newBuilder().addAllPartitions(Collections.nCopies(10_000, "p")).build());
    assertEquals(11, view.partitions().size());
  }

  @Test
  void revisions() {
    assertEquals(1, view.revision("default"));
    assertEquals(0, view.revision("other"));
  }
}
