package io.queuegate.internal;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * The time in nanoseconds, which advances while the machine is suspended: a lease must expire during that
 * time, and the JVM's monotonic clock stops.
 *
 * <p>On Linux, {@code /proc/uptime} has such a clock, in steps of 10 ms. Reading it costs more than a
 * decision. After a suspension, the cheap wall clock has advanced, which shows that a reading is due. The
 * clock adds what it has lost to the monotonic one. It never goes back, and lags by at most {@link
 * #error}.
 */
public final class Clock {
  /** Earlier than any time, even with any grace. */
  static final long NEVER = Long.MIN_VALUE / 2;

  /** Later than any time. */
  static final long FOREVER = Long.MAX_VALUE / 2;

  /** The drift between the wall clock and the monotonic clock that makes a reading due. */
  static final long MAX_STEP = TimeUnit.MILLISECONDS.toNanos(3);

  /** How long a reading is valid. */
  static final long MAX_READING_AGE = TimeUnit.SECONDS.toNanos(1);

  /** A shorter suspension is not distinguished from the steps of the file. */
  static final long MAX_LAG = TimeUnit.MILLISECONDS.toNanos(35);

  /** A longer pause between the readings of two clocks makes them incomparable. */
  private static final long MAX_PAUSE = TimeUnit.MILLISECONDS.toNanos(1);

  private static final int ATTEMPTS = 3;
  private static final long STEP_OF_FILE = TimeUnit.MILLISECONDS.toNanos(10);
  private static final long UNREADABLE = Long.MIN_VALUE;

  private final LongSupplier monotonic;
  private final LongSupplier wall;
  private final LongSupplier boot; // null if the system has no such clock
  private final long firstOffset;
  private volatile Reading last;

  /** The wall and the monotonic clock at one moment, and the time suspended before it. */
  private static final class Reading {
    final long monotonic;
    final long wall;
    final long suspended;

    Reading(long monotonic, long wall, long suspended) {
      this.monotonic = monotonic;
      this.wall = wall;
      this.suspended = suspended;
    }
  }

  /** Creates a clock of nanoseconds from three others. {@code boot} may return {@link #UNREADABLE}. */
  Clock(LongSupplier monotonic, LongSupplier wall, LongSupplier boot) {
    this.monotonic = monotonic;
    this.wall = wall;
    long now = monotonic.getAsLong();
    long first = boot == null ? UNREADABLE : boot.getAsLong();
    this.boot = first == UNREADABLE ? null : boot;
    firstOffset = first - now;
    last = new Reading(now, wall.getAsLong(), 0);
  }

  /**
   * Returns the clock of this machine.
   *
   * @return the clock
   */
  public static Clock ofMachine() {
    long start = System.nanoTime();
    return new Clock(
        () -> System.nanoTime() - start,
        () -> TimeUnit.MILLISECONDS.toNanos(System.currentTimeMillis()),
        () -> uptime(() -> open("/proc/uptime")));
  }

  /**
   * Returns the time.
   *
   * @return the time in nanoseconds, from any origin; later than any time while the clocks cannot be read
   */
  public long now() {
    long passed = monotonic.getAsLong();
    if (boot == null) {
      return passed;
    }
    Reading earlier = last;
    long age = passed - earlier.monotonic;
    long step = wall.getAsLong() - earlier.wall - age;
    if (age < MAX_READING_AGE && -MAX_STEP < step && step < MAX_STEP) {
      return passed + earlier.suspended;
    }
    return read();
  }

  /** By how much the clock may lag. */
  long error() {
    return boot == null ? 0 : MAX_LAG;
  }

  private long read() {
    for (int i = 0; i < ATTEMPTS; i++) {
      long now = monotonic.getAsLong();
      long wallNow = wall.getAsLong();
      long bootNow = boot.getAsLong();
      // A pause would count as a suspension, and hide a later one of the same length.
      if (bootNow != UNREADABLE && monotonic.getAsLong() - now <= MAX_PAUSE) {
        return note(now, wallNow, bootNow);
      }
    }
    return FOREVER; // every lease has expired
  }

  private long note(long now, long wallNow, long bootNow) {
    Reading earlier = last;
    long suspended = bootNow - now - firstOffset;
    if (suspended <= earlier.suspended + 2 * STEP_OF_FILE) {
      suspended = earlier.suspended;
    } else {
      suspended += STEP_OF_FILE;
    }
    last = new Reading(now, wallNow, suspended);
    return now + suspended;
  }

  private static InputStream open(String path) {
    try {
      return new FileInputStream(path); // unlike a channel, not closed if the thread is interrupted
    } catch (IOException | SecurityException absent) {
      return null;
    }
  }

  /** Returns the first number of a file, seconds with a fraction, in nanoseconds. */
  static long uptime(Supplier<InputStream> opened) {
    byte[] content = new byte[64];
    try (InputStream file = opened.get()) {
      int length = file == null ? 0 : file.read(content);
      String text = new String(content, 0, Math.max(length, 0), StandardCharsets.US_ASCII);
      String[] parts = text.split(" ", 2)[0].split("\\.", 2);
      String fraction = (parts.length < 2 ? "" : parts[1]) + "000000000";
      return Math.addExact(
          TimeUnit.SECONDS.toNanos(Long.parseLong(parts[0])), Long.parseLong(fraction.substring(0, 9)));
    } catch (IOException | NumberFormatException | ArithmeticException unusable) {
      return UNREADABLE;
    }
  }
}
