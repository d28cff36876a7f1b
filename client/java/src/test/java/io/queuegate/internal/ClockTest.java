package io.queuegate.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The clock advances while the machine is suspended. */
class ClockTest {
  private static final long SECOND = TimeUnit.SECONDS.toNanos(1);
  private static final long STEP = SECOND / 100;

  private long wall = 1_000_000 * SECOND;
  private long monotonic = 3_600 * SECOND;
  private long boot = 7_200 * SECOND;
  private boolean isBroken;
  private int reads;
  private long pause; // between the readings of two clocks, during which the machine runs

  private void run(long nanos) {
    wall += nanos;
    monotonic += nanos;
    boot += nanos;
  }

  private void suspend(long nanos) {
    wall += nanos;
    boot += nanos;
  }

  private Clock clock() {
    return new Clock(
        () -> monotonic,
        () -> wall,
        () -> {
          reads++;
          run(pause);
          return isBroken ? Long.MIN_VALUE : boot / STEP * STEP;
        });
  }

  @Test
  void suspensions() {
    Clock clock = clock();
    long start = clock.now();
    long from = boot;
    assertEquals(1, reads);
    run(SECOND / 2);
    assertEquals(start + SECOND / 2, clock.now());
    assertEquals(1, reads);
    suspend(10 * SECOND);
    long now = clock.now();
    assertEquals(2, reads);
    assertTrue(now - start >= boot - from, "it lags");
    assertTrue(now - start <= boot - from + 2 * STEP, "it runs ahead");
    run(SECOND / 2);
    wall -= 3_600 * SECOND; // the clock is set
    assertEquals(now + SECOND / 2, clock.now());
    assertEquals(3, reads);
    suspend(3_600 * SECOND);
    wall -= 3_600 * SECOND; // and set back while the machine is suspended
    run(SECOND);
    assertTrue(clock.now() - start >= boot - from, "it lags");
  }

  @Test
  void itNeverLagsByMoreThanItsErrorNorGoesBack() {
    Clock clock = clock();
    long start = clock.now();
    long from = boot;
    long last = start;
    for (int i = 0; i < 10_000; i++) {
      run(i * 7_919L % (SECOND / 50));
      if (i % 3 == 0) {
        suspend(i * 104_729L % (SECOND / 30));
      }
      long now = clock.now();
      assertTrue(now >= last, "it goes back");
      assertTrue(boot - from - (now - start) <= clock.error(), "it lags");
      last = now;
    }
  }

  /** Counted as a suspension, a pause would hide a later suspension of the same length. */
  @Test
  void aPauseWhileTheClocksAreReadIsNoSuspension() {
    Clock clock = clock();
    long start = clock.now();
    long from = boot;
    run(2 * SECOND);
    pause = 10 * SECOND;
    assertEquals(Clock.FOREVER, clock.now());
    pause = 0;
    assertTrue(clock.now() - start <= boot - from + 2 * STEP, "it runs ahead");
    suspend(10 * SECOND);
    assertTrue(clock.now() - start >= boot - from, "it lags");
  }

  @Test
  void withoutAReadableClockEveryLeaseHasExpired() {
    Clock clock = clock();
    isBroken = true;
    run(2 * SECOND);
    assertEquals(Clock.FOREVER, clock.now());
    isBroken = false;
    assertTrue(clock.now() < Clock.FOREVER, "it is readable again");
  }

  @Test
  void theFile() {
    assertEquals(1_234_560_000_000L, uptime("1234.56 99.00\n"));
    assertEquals(5 * SECOND, uptime("5 1"));
    for (String text : new String[] {"", "x", "1.x 2", "99999999999999999999 1"}) {
      assertEquals(Long.MIN_VALUE, uptime(text), text);
    }
    assertEquals(Long.MIN_VALUE, Clock.uptime(() -> null));
  }

  private static long uptime(String text) {
    return Clock.uptime(() -> new ByteArrayInputStream(text.getBytes(StandardCharsets.US_ASCII)));
  }

  @Test
  void thisMachine() {
    Clock clock = Clock.ofMachine();
    long before = System.nanoTime();
    long first = clock.now();
    long passed = clock.now() - first;
    assertTrue(0 <= passed && passed <= System.nanoTime() - before + Clock.MAX_LAG, "it is a clock");
  }
}
