package io.queuegate.internal;

import static io.queuegate.internal.World.HOUR;
import static io.queuegate.internal.World.SECOND;
import static io.queuegate.internal.World.checkpoint;
import static io.queuegate.internal.World.forget;
import static io.queuegate.internal.World.opened;
import static io.queuegate.internal.World.pong;
import static io.queuegate.internal.World.unchanged;
import static io.queuegate.internal.World.userGroups;
import static io.queuegate.internal.World.whole;
import static io.queuegate.v1.ResolveOutcome.RESOLVE_OUTCOME_NOT_FOUND;
import static io.queuegate.v1.ResolveOutcome.RESOLVE_OUTCOME_RESOLVED;
import static io.queuegate.v1.ResolveOutcome.RESOLVE_OUTCOME_UNAVAILABLE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.Reason;
import io.queuegate.v1.Cursor;
import io.queuegate.v1.SyncCheckpoint;
import io.queuegate.v1.GateCounts;
import io.queuegate.v1.SyncOpen;
import io.queuegate.v1.SyncResponse;
import java.util.Arrays;
import java.util.Collections;
import org.junit.jupiter.api.Test;

/** Leases, resets, groups and what is resumed. */
class SessionTest {
  @Test
  void aLeaseStartsWhenThePingIsSent() {
    World w = new World();
    w.session.open();
    w.receive(opened(), whole("default", "alice"));
    w.expect("alice", "root", null); // a policy without a lease is not enough
    long first = w.session.ping(w.now).getPing().getId();
    w.now += 3 * SECOND;
    long second = w.session.ping(w.now).getPing().getId();
    w.now += SECOND;
    w.receive(pong(first));
    w.expect("alice", "root", Reason.USER);
    w.now += SECOND - 1;
    w.expect("alice", "root", Reason.USER);
    w.now++;
    w.expect("alice", "root", null);
    w.receive(pong(second));
    w.expect("alice", "root", Reason.USER);
    w.receive(pong(first), pong(second), pong(77)); // repeated pongs grant no lease
    w.now += 3 * SECOND;
    w.expect("alice", "root", null);
  }

  @Test
  void aClockThatLagsShortensTheLease() throws ProtocolFault {
    Session session =
        new Session(
            new Replica(false, () -> {}), new Wants(() -> {}), "gate", Collections.emptyList(), 7);
    session.open();
    session.receive(opened(), 0);
    session.receive(pong(session.ping(HOUR).getPing().getId()), HOUR);
    assertEquals(HOUR + 5 * SECOND - 7, session.leaseUntil());
  }

  @Test
  void withoutAReadableClockThereIsNoLease() {
    World w = new World();
    w.session.open();
    w.receive(opened(), whole("default", "alice g"));
    w.now = Clock.FOREVER;
    w.renew();
    assertEquals(Clock.NEVER, w.session.leaseUntil());
    w.expect("eve", "root", null);
    w.give("eve", HOUR, "g");
    w.now = HOUR;
    w.renew();
    w.expect("alice", "root", Reason.USER);
    w.expect("eve", "root", null);
  }

  @Test
  void aClockThatIsUnreadableForAMoment() {
    World w = new World().live(whole("default", "alice g"));
    w.expect("eve", "root", null);
    w.give("eve", 2 * SECOND, "g");
    w.now = Clock.FOREVER;
    w.expect("eve", "root", null);
    w.now = HOUR + SECOND;
    w.taken();
    w.receive(userGroups("eve", RESOLVE_OUTCOME_UNAVAILABLE, 0));
    w.now += SECOND;
    w.expect("eve", "root", null); // they have expired
    assertEquals(Collections.singletonList("eve"), w.taken());
    w.receive(userGroups("eve", RESOLVE_OUTCOME_RESOLVED, HOUR, "g"));
    w.expect("eve", "root", Reason.GROUP);
    w.session.release(Clock.FOREVER);
    w.expect("eve", "root", null);
  }

  @Test
  void aServerLearnsHowLongAGateUsesItsLastState() {
    World w = new World();
    SyncOpen silent = w.session.open().getOpen();
    assertEquals(0, silent.getStaleMillis());
    w.session.introduce(SECOND + 1, "scheduler/1", GateCounts::getDefaultInstance);
    SyncOpen message = w.session.open().getOpen();
    assertEquals(1_001, message.getStaleMillis());
    assertEquals("scheduler/1", message.getAgent());
  }

  @Test
  void onlyAClosedGateSaysThatItIsClosed() {
    World w = new World().live(whole("default", "*"));
    assertFalse(w.session.release(w.now).getRelease().getClosed());
    assertTrue(w.session.close(w.now).getRelease().getClosed());
  }

  @Test
  void pingsOfAnotherStreamGrantNothing() {
    World w = new World().live(whole("default", "alice"));
    w.now += 4 * SECOND;
    long earlier = w.session.ping(w.now).getPing().getId();
    w.session.open();
    w.receive(opened(o -> o.setResumed(true)), pong(earlier));
    w.expect("alice", "root", Reason.USER); // the previous lease is still valid
    w.now += SECOND;
    w.expect("alice", "root", null);
  }

  @Test
  void anotherServerResets() {
    World w = new World().live(whole("default", "*"));
    w.expect("eve", "root", Reason.WILDCARD);
    w.session.open();
    w.receive(opened(o -> o.setEpoch(ByteString.copyFromUtf8("other"))));
    w.renew();
    w.expect("eve", "root", null);
    SyncOpen message = w.session.open().getOpen();
    assertFalse(message.hasResume());
    assertEquals(1, message.getHeldCount());
    w.receive(opened(), unchanged("default", "*", 7), checkpoint(3));
    w.expect("eve", "root", null); // there is no lease yet
    w.renew();
    assertEquals(7, w.ask("eve", "root").policyRevision());
    Cursor resume = w.session.open().getOpen().getResume();
    assertEquals("epoch", resume.getEpoch().toStringUtf8());
    assertEquals(3, resume.getSequence());
  }

  @Test
  void anotherReplicaMayLetAGateKeepGroups() {
    World w = new World().live(whole("default", " staff"));
    Cursor fleet = Cursor.newBuilder().setEpoch(ByteString.copyFromUtf8("fleet")).setSequence(7).build();
    SyncResponse at =
        SyncResponse.newBuilder()
            .setCheckpoint(SyncCheckpoint.newBuilder().setSequence(2).setFleetCursor(fleet))
            .build();
    for (String user : Arrays.asList("sam", "eve")) {
      w.expect(user, "root", null);
      w.give(user, HOUR, "staff");
      w.expect(user, "root", Reason.GROUP);
    }
    w.receive(at);
    assertEquals(fleet, w.session.open().getOpen().getFleetCursor());
    w.receive(
        opened(o -> o.addKeepGroupsOf("default")),
        forget("default", "eve"),
        unchanged("default", " staff", 2),
        checkpoint(2));
    w.expect("sam", "root", null); // the lease is another server's
    w.renew();
    w.expect("sam", "root", Reason.GROUP);
    w.expect("eve", "root", null);
    assertFalse(w.session.open().getOpen().hasFleetCursor());
    w.receive(opened(o -> o.addKeepGroupsOf("other")), unchanged("default", " staff", 2), at);
    w.renew();
    w.expect("sam", "root", null);
    w.session.open();
    w.receive(opened());
    assertFalse(w.session.open().getOpen().hasFleetCursor()); // it covers only groups sent before it
  }

  @Test
  void unknownFieldsOfACursorAreNotSentBack() {
    World w = new World().live(whole("default", " staff"));
    UnknownFieldSet.Field large =
        UnknownFieldSet.Field.newBuilder().addLengthDelimited(ByteString.copyFrom(new byte[1 << 20])).build();
    Cursor cursor =
        Cursor.newBuilder()
            .setSequence(7)
            .setUnknownFields(UnknownFieldSet.newBuilder().addField(1_000, large).build())
            .build();
    w.receive(
        SyncResponse.newBuilder().setCheckpoint(SyncCheckpoint.newBuilder().setFleetCursor(cursor)).build());
    SyncOpen message = w.session.open().getOpen();
    assertEquals(7, message.getFleetCursor().getSequence());
    assertTrue(message.getSerializedSize() < 1_000);
  }

  @Test
  void onlyConfirmedPositionsAreResumed() {
    World w = new World();
    assertFalse(w.session.open().getOpen().hasResume());
    w.receive(opened(), whole("default", "alice"));
    assertFalse(w.session.open().getOpen().hasResume()); // the policy is not confirmed
    w.receive(opened(), whole("default", "alice"));
    assertEquals(9, w.receive(checkpoint(9)).getApplied().getSequence());
    assertEquals(9, w.session.open().getOpen().getResume().getSequence());
    ByteString other = ByteString.copyFromUtf8("other");
    assertNotNull(w.fault(opened(o -> o.setResumed(true).setEpoch(other))));
    World fresh = new World();
    fresh.session.open();
    assertNotNull(fresh.fault(opened(o -> o.setResumed(true))));
  }

  @Test
  void aNewStreamRequestsGroupsAgain() {
    World w = new World().live(whole("default", " g"));
    w.expect("eve", "root", null);
    assertEquals(Collections.singletonList("eve"), w.taken());
    w.session.open();
    w.receive(opened(o -> o.setResumed(true)));
    w.expect("eve", "root", null);
    assertEquals(Collections.singletonList("eve"), w.taken());
  }

  @Test
  void serversThatDoNotFollowTheProtocol() {
    for (SyncResponse wrong :
        Arrays.asList(
            whole("default", "bob"),
            pong(1),
            opened(o -> o.setLeaseMillis(0)),
            opened(o -> o.setPingIntervalMillis(0)))) {
      World w = new World().live(whole("default", "alice"));
      w.session.open();
      assertNotNull(w.fault(wrong), wrong.toString());
      w.expect("alice", "root", Reason.USER); // the lease is still valid
      w.session.dropEverything();
      w.expect("alice", "root", null);
      SyncOpen message = w.session.open().getOpen();
      assertFalse(message.hasResume());
      assertEquals(0, message.getHeldCount());
      w.receive(SyncResponse.getDefaultInstance()); // from a newer server
      w.receive(opened(), whole("default", "alice"), checkpoint(1));
      w.renew();
      w.expect("alice", "root", Reason.USER);
    }
  }

  @Test
  void rightsOfALaterStreamApplyToCachedDecisions() {
    Check question = Check.of("eve", "root").withGroups(Collections.singleton("g"));
    World w = new World().live(whole("default", " g"));
    assertTrue(w.decider.decide(question).allowed());
    w.session.open();
    w.receive(opened(o -> o.setResumed(true).setAssertGroups(false)));
    assertNull(w.decider.decide(question));
    w.session.open();
    w.receive(opened(o -> o.setResumed(true).setLocalDecisions(false)));
    assertNull(w.decider.decide(question));
    w.session.open();
    w.receive(opened(o -> o.setResumed(true)));
    assertTrue(w.decider.decide(question).allowed());
    assertFalse(w.decider.decide(question.withGroups(Collections.emptyList())).allowed());
    assertNull(w.ask("eve", "root")); // these would have to be resolved
  }

  @Test
  void groups() {
    World w = new World().live(whole("default", "alice g"));
    w.receive(userGroups("eve", RESOLVE_OUTCOME_RESOLVED, HOUR, "g"));
    w.expect("eve", "root", null); // they were not requested
    w.give("eve", HOUR, "x", "g");
    w.expect("eve", "root", Reason.GROUP);
    w.expect("bob", "root", null);
    w.give("bob", HOUR);
    w.expect("bob", "root", Reason.NO_MATCH);
    w.expect("nil", "root", null);
    w.wants.take(w.now);
    w.receive(userGroups("nil", RESOLVE_OUTCOME_NOT_FOUND, HOUR));
    w.expect("nil", "root", Reason.UNKNOWN_USER);
    w.receive(forget("default", "eve", "carol"));
    w.expect("eve", "root", null);
    w.expect("bob", "root", Reason.NO_MATCH);
    w.receive(forget("gpu"));
    w.expect("bob", "root", Reason.NO_MATCH);
    w.receive(forget("default"));
    w.expect("bob", "root", null);
    w.expect("nil", "root", null);
    w.expect("alice", "root", Reason.USER);
    w.give("bob", HOUR, "g");
    w.expect("bob", "root", Reason.GROUP);
    w.wants.add(new Users.Key("default", "bob"), w.now);
    w.give("bob", HOUR, "h");
    w.expect("bob", "root", Reason.NO_MATCH);
  }

  @Test
  void groupsLiveFromWhenTheyWereAskedFor() {
    World w = new World().live(whole("default", " g"));
    w.expect("eve", "root", null);
    w.taken();
    w.now += 3 * SECOND; // the response is in transit
    w.renew();
    w.receive(userGroups("eve", RESOLVE_OUTCOME_RESOLVED, 4 * SECOND, "g"));
    w.expect("eve", "root", Reason.GROUP);
    w.now += SECOND;
    w.expect("eve", "root", null);
    assertEquals(Collections.singletonList("eve"), w.taken());
  }

  @Test
  void groupsAreRefreshed() {
    World w = new World().live(whole("default", " g"));
    w.expect("eve", "root", null);
    w.give("eve", 4 * SECOND, "g");
    w.now += 3 * SECOND;
    w.expect("eve", "root", Reason.GROUP);
    assertEquals(0, w.taken().size());
    w.now += SECOND / 3;
    w.expect("eve", "root", Reason.GROUP);
    w.expect("eve", "root", Reason.GROUP);
    assertEquals(1, w.taken().size());
    w.receive(userGroups("eve", RESOLVE_OUTCOME_RESOLVED, 4 * SECOND, "g"));
    w.renew();
    w.now += 3 * SECOND;
    w.expect("eve", "root", Reason.GROUP);
  }

  @Test
  void groupsThatCannotBeHad() {
    World w = new World().live(whole("default", " g"));
    w.expect("eve", "root", null);
    assertEquals(1, w.taken().size());
    w.expect("eve", "root", null);
    assertEquals(0, w.taken().size());
    w.receive(userGroups("eve", RESOLVE_OUTCOME_UNAVAILABLE, 2 * SECOND));
    w.now += 2 * SECOND - 1;
    w.expect("eve", "root", null);
    assertEquals(0, w.taken().size());
    w.now++;
    w.expect("eve", "root", null);
    assertEquals(1, w.taken().size());
    w.now += Wants.ANSWER_TIME; // there was no answer
    w.renew();
    w.expect("eve", "root", null);
    assertEquals(1, w.taken().size());
    w.receive(userGroups("eve", RESOLVE_OUTCOME_RESOLVED, 0, "g")); // they expire at once
    w.expect("eve", "root", null);
    assertEquals(0, w.taken().size());
    w.now += Bounds.MIN_LOOKUP;
    w.expect("eve", "root", null);
    assertEquals(1, w.taken().size());
  }

  @Test
  void stale() {
    World w = new World().live(whole("default", "alice g"));
    w.expect("eve", "root", null);
    w.give("eve", 2 * SECOND, "g");
    w.decider.setGrace(10 * SECOND); // the stream has ended
    w.now += 2 * SECOND;
    assertEquals("false true", stale(w, "alice") + " " + stale(w, "eve"));
    w.now += 3 * SECOND;
    assertEquals("true true", stale(w, "alice") + " " + stale(w, "eve"));
    w.now += 7 * SECOND;
    assertEquals("true null", stale(w, "alice") + " " + stale(w, "eve"));
    w.now += 3 * SECOND;
    assertEquals("null", stale(w, "alice"));
    w.session.reset(Collections.emptyList());
    w.receive(opened(), whole("default", "alice"));
    w.now = 0;
    assertEquals("null", stale(w, "alice")); // there has never been a lease
  }

  private static String stale(World w, String user) {
    Decision decision = w.ask(user, "root");
    return decision == null ? "null" : String.valueOf(decision.stale());
  }

  @Test
  void aDrainingServerIsReleased() {
    World w = new World().live(whole("default", "alice"));
    SyncResponse draining =
        SyncResponse.newBuilder().setDraining(io.queuegate.v1.SyncDraining.getDefaultInstance()).build();
    assertTrue(w.receive(draining).hasRelease());
    w.expect("alice", "root", null);
    w.renew();
    w.expect("alice", "root", Reason.USER);
  }

  @Test
  void partitions() {
    World w = new World().live(whole("default", "alice"), whole("gpu", "bob"), whole("[rm]tpu", "eve"));
    assertEquals(Reason.USER, in(w, "bob", "[rm]gpu"));
    assertEquals(Reason.USER, in(w, "eve", "[rm]tpu"));
    assertEquals(Reason.USER, in(w, "alice", "[rm]"  + "default"));
    assertNull(in(w, "eve", "tpu"));
    w.receive(World.removed("gpu"));
    assertNull(in(w, "bob", "gpu"));
    World partial = new World("gpu").live(whole("gpu", "bob"));
    assertEquals(Reason.USER, in(partial, "bob", "gpu"));
    assertNull(in(partial, "bob", "[rm]gpu")); // the server may have one of this name
    assertNotNull(partial.fault(whole("default", "alice")));
  }

  private static Reason in(World w, String user, String partition) {
    Decision decision = w.decider.decide(Check.of(user, "root").withPartition(partition));
    return decision == null ? null : decision.reason();
  }
}
