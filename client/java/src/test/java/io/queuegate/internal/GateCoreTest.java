package io.queuegate.internal;

import static io.queuegate.internal.World.HOUR;
import static io.queuegate.internal.World.SECOND;
import static io.queuegate.internal.World.checkpoint;
import static io.queuegate.internal.World.opened;
import static io.queuegate.internal.World.pong;
import static io.queuegate.internal.World.whole;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.GateState;
import io.queuegate.LogListener;
import io.queuegate.v1.SyncDraining;
import io.queuegate.v1.SyncOpened;
import io.queuegate.v1.SyncRequest;
import io.queuegate.v1.SyncResponse;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A gate across its streams. */
class GateCoreTest {
  private static final Check ALICE = Check.of("alice", "root");

  private long now = HOUR;
  private boolean isBroken;
  private final GateCore core;
  private final Object first = new Object();
  private final Object second = new Object();

  GateCoreTest() {
    GateOptions options = new GateOptions();
    options.explain = (error, hasAnswered) -> error.toString();
    options.stale = HOUR;
    Clock clock = new Clock(() -> now, () -> now, () -> isBroken ? Long.MIN_VALUE : now);
    core = new GateCore(options, clock, () -> {}, () -> {});
  }

  private void receive(Object stream, SyncResponse... responses) throws ProtocolFault {
    for (SyncResponse each : responses) {
      core.receive(stream, each, false);
    }
  }

  private static SyncRequest ping(GateCore.Due due) {
    return due.requests.stream().filter(SyncRequest::hasPing).findFirst().orElse(null);
  }

  private void greet(Object stream) throws ProtocolFault {
    core.opening(stream);
    receive(stream, opened(), whole("default", "alice"), checkpoint(1));
    receive(stream, pong(ping(core.due()).getPing().getId()));
    assertTrue(core.decide(ALICE).allowed());
  }

  @Test
  void messagesOfAnEarlierStreamDoNotCount() throws ProtocolFault {
    greet(first);
    core.opening(second);
    receive(first, whole("default", "bob"), pong(1), opened());
    core.dropEverything(first);
    assertTrue(core.decide(ALICE).allowed());
    assertEquals(0, core.resets());
  }

  @Test
  void aMistypedPartitionIsLoggedWithThoseThatExist() throws ProtocolFault {
    List<String> logged = new ArrayList<>();
    LogListener listener = new LogListener(logged::add);
    try {
      StreamLog log = new StreamLog(Arrays.asList("default", "hadop"));
      log.opening(SyncOpened.newBuilder().setLocalDecisions(true).addPartitions("default").build());
      List<String> many = new ArrayList<>();
      for (int i = 10; i < 21; i++) {
        many.add("p" + i);
      }
      log.opening(SyncOpened.newBuilder().setLocalDecisions(true).addAllPartitions(many).build());
      log.opening(SyncOpened.newBuilder().setLocalDecisions(true).build());
    } finally {
      listener.close();
    }
    String start = "A gate follows partitions that the server does not have: ";
    assertEquals(
        Arrays.asList(
            start + "hadop. The server has default.",
            start + "default. The server has p10, p11, p12, p13, p14, p15, p16, p17, p18, p19, ...."),
        logged);
  }

  @Test
  void nothingReplacesARelease() throws ProtocolFault {
    greet(first);
    SyncDraining draining = SyncDraining.getDefaultInstance();
    receive(first, SyncResponse.newBuilder().setDraining(draining).build(), checkpoint(2));
    assertTrue(core.due().requests.get(0).hasRelease());
    assertNull(core.decide(ALICE));
  }

  @Test
  void oldStateIsUsedOnlyWhileTheServerIsAway() throws ProtocolFault {
    greet(first);
    core.noteEnd(Status.UNAVAILABLE.asRuntimeException());
    now += 10 * SECOND;
    Decision decision = core.decide(ALICE);
    assertTrue(decision.allowed() && decision.stale());
    core.opening(second);
    assertTrue(core.decide(ALICE).stale());
    receive(second, opened(o -> o.setResumed(true)));
    assertNull(core.decide(ALICE));
    assertEquals(GateState.EXPIRED, core.state());
  }

  @Test
  void aServerThatRejectsTheGateEndsItsLease() throws ProtocolFault {
    for (Status each : new Status[] {Status.PERMISSION_DENIED, Status.UNAUTHENTICATED, Status.UNIMPLEMENTED}) {
      greet(first);
      core.noteEnd(each.asRuntimeException());
      assertNull(core.decide(ALICE), each.toString());
    }
  }

  @Test
  void nothingIsSentWhileTheClockIsUnreadable() throws ProtocolFault {
    greet(first);
    now += 2 * SECOND;
    isBroken = true;
    assertEquals(0, core.due().requests.size());
    isBroken = false;
    assertFalse(ping(core.due()) == null);
  }

  @Test
  void aGateThatIsClosedDecidesNothing() throws ProtocolFault {
    greet(first);
    assertTrue(core.close());
    assertFalse(core.close());
    assertNull(core.decide(ALICE));
    assertEquals(GateState.CLOSED, core.state());
    assertTrue(core.due().requests.get(0).hasRelease());
    receive(first, whole("default", "alice"));
    assertNull(core.decide(ALICE));
  }
}
