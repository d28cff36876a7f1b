package io.queuegate.internal;

import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.v1.LocalDecision;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * Stores decisions in a folder until the server's audit log has them, even if the process exits. A
 * decision is written to the newest segment before it is returned, so it is lost only with the machine or
 * its disk. Safe for concurrent use.
 */
public final class Outbox implements AutoCloseable {
  /** The maximum size of all files in the folder. Beyond it, checks go to the server. */
  static final long MAX_OUTBOX_BYTES = 64 << 20;

  static final long MAX_SEGMENT_BYTES = 256 << 10;

  private static final Logger LOG = StreamLog.LOG;
  private static final String REJECTED = "rejected";

  /**
   * The folders in use by this process. The system's lock is one of the process, which loses it as soon as
   * it closes any other file with the lock's path.
   */
  private static final Set<Path> IN_USE = ConcurrentHashMap.newKeySet();

  private final Path folder;
  private final Path realFolder;
  private final RandomAccessFile lock;
  private boolean isClosed;
  private long waitingBytes;
  private long confirmed;
  private long notKept;
  private long rejected;
  private long damaged;
  private final Deque<Segment> sealed = new ArrayDeque<>();
  private Segment newest;
  private RandomAccessFile file; // of the newest segment; null before its first decision
  private String fault = ""; // why decisions cannot be stored; empty if they can

  /** The decisions that an outbox has had to report. Immutable. */
  public static final class Counts {
    /** The size of all files. */
    public final long waitingBytes;

    /** Decisions in the server's audit log. */
    public final long confirmed;

    /** Decisions that could not be stored. */
    public final long notKept;

    /** Decisions rejected by the server. */
    public final long rejected;

    /** Files that could not be read completely. */
    public final long damaged;

    private Counts(Outbox outbox) {
      waitingBytes = outbox.waitingBytes;
      confirmed = outbox.confirmed;
      notKept = outbox.notKept;
      rejected = outbox.rejected;
      damaged = outbox.damaged;
    }
  }

  /**
   * Opens a folder, creating it if missing. Only one outbox can use it.
   *
   * @param folder the folder
   * @throws IOException if the folder cannot be used, or is in use
   */
  public Outbox(Path folder) throws IOException {
    this.folder = folder;
    if (!Files.isDirectory(folder)) {
      Files.createDirectories(folder, attributes("rwx------"));
    }
    realFolder = folder.toRealPath();
    if (!IN_USE.add(realFolder)) {
      throw inUse(folder);
    }
    RandomAccessFile owner = null;
    try {
      owner = lock(folder);
      load();
    } catch (IOException | RuntimeException error) {
      if (owner != null) {
        owner.close();
      }
      IN_USE.remove(realFolder);
      throw error;
    }
    lock = owner;
  }

  private static FileAttribute<?>[] attributes(String permissions) {
    boolean isPosix = FileSystems.getDefault().supportedFileAttributeViews().contains("posix");
    return isPosix
        ? new FileAttribute<?>[] {
          PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(permissions))
        }
        : new FileAttribute<?>[0];
  }

  private static void create(Path path) throws IOException {
    Files.createFile(path, attributes("rw-------"));
  }

  private static IOException inUse(Path folder) {
    return new IOException(folder + " is in use by another gate: give each gate its own folder");
  }

  /** Locks a folder as gates in other languages do, whose locks conflict with this one. */
  private static RandomAccessFile lock(Path folder) throws IOException {
    Path path = folder.resolve("lock");
    try {
      create(path);
    } catch (FileAlreadyExistsException earlier) {
      // Left by an earlier outbox, or in use, as the lock tells.
    }
    RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw");
    try {
      FileLock held = file.getChannel().tryLock();
      if (held != null) {
        return file;
      }
    } catch (OverlappingFileLockException inAnotherClassLoader) {
      // Reported like a lock of another process.
    } catch (IOException error) {
      file.close();
      throw error;
    }
    file.close();
    throw inUse(folder);
  }

  /** Finds the segments of earlier processes. */
  private void load() throws IOException {
    File[] files = folder.toFile().listFiles();
    if (files == null) {
      throw new IOException("cannot list " + folder);
    }
    List<Segment> segments = new ArrayList<>();
    for (File each : files) {
      waitingBytes += each.length();
      Segment segment = Segment.of(each.toPath());
      if (segment != null) {
        segment.size = each.length();
        segments.add(segment);
      }
    }
    segments.sort(Comparator.comparingLong(segment -> segment.number));
    sealed.addAll(segments);
    begin(segments.isEmpty() ? 1 : segments.get(segments.size() - 1).number + 1);
  }

  /** Begins a segment. Its file is created when its first decision is stored. */
  private void begin(long number) {
    newest = new Segment(folder, number);
  }

  /**
   * Returns the current counts.
   *
   * @return the counts
   */
  public synchronized Counts counts() {
    return new Counts(this);
  }

  /** Stores a decision, and returns whether it succeeded. If not, the decision must not be used. */
  synchronized boolean add(Check question, String partition, Decision decision) {
    if (isClosed) {
      return false;
    }
    String newFault = "";
    try {
      write(Segment.decision(question, partition, decision));
    } catch (IOException | RuntimeException error) {
      newFault = error.toString();
      notKept++;
    }
    if (!newFault.equals(fault)) {
      String text =
          newFault.isEmpty()
              ? "A gate's outbox stores decisions again: {0}"
              : "A gate's outbox cannot store decisions; checks go to the server: {0} {1}";
      LOG.log(Level.WARNING, text.replace("'", "''"), new Object[] {folder, newFault});
      fault = newFault;
    }
    return newFault.isEmpty();
  }

  private void write(LocalDecision decision) throws IOException {
    ByteArrayOutputStream record = new ByteArrayOutputStream();
    decision.writeDelimitedTo(record);
    if (waitingBytes + record.size() > MAX_OUTBOX_BYTES) {
      throw new IOException("more than " + MAX_OUTBOX_BYTES + " bytes are waiting");
    }
    if (file == null) {
      try {
        create(newest.path);
      } catch (FileAlreadyExistsException taken) {
        begin(newest.number + 1);
        throw taken;
      }
      file = new RandomAccessFile(newest.path.toFile(), "rw");
    }
    try {
      file.seek(newest.size);
      file.write(record.toByteArray());
    } catch (IOException error) {
      try {
        file.setLength(newest.size);
      } catch (IOException again) {
        seal(); // nothing may follow a partial decision
      }
      throw error;
    }
    waitingBytes += record.size();
    newest.size += record.size();
    if (newest.size >= MAX_SEGMENT_BYTES) {
      seal();
    }
  }

  /**
   * Returns the decisions of the oldest nonempty segment; none if the outbox is empty. Like {@link
   * #removeOldest}, for a single thread. It reads without the lock, so that no decision waits.
   */
  List<LocalDecision> oldest() {
    for (Segment oldest = sealOldest(); oldest != null; oldest = sealOldest()) {
      List<LocalDecision> decisions = new ArrayList<>();
      String unreadable = oldest.read(decisions);
      if (unreadable != null) {
        keepCopy(oldest, decisions.size(), unreadable);
      }
      if (!decisions.isEmpty()) {
        return decisions;
      }
      removeOldest();
    }
    return Collections.emptyList();
  }

  /** Returns the oldest segment, after sealing it if it is the newest one; null if there is none. */
  private synchronized Segment sealOldest() {
    if (!isClosed && sealed.isEmpty() && newest.size > 0) {
      seal();
    }
    return isClosed ? null : sealed.peekFirst();
  }

  /** Removes the oldest segment after its decisions were reported. */
  void removeOldest() {
    Segment oldest;
    synchronized (this) {
      oldest = sealed.removeFirst();
    }
    try {
      Files.deleteIfExists(oldest.path);
      synchronized (this) {
        waitingBytes -= oldest.size;
      }
    } catch (IOException error) {
      LOG.log(
          Level.SEVERE,
          "Cannot remove a file from a gate''s outbox; the next gate will report it again: {0}",
          error.toString());
    }
  }

  /** Counts decisions confirmed by the server. */
  synchronized void confirm(int decisions) {
    confirmed += decisions;
  }

  /** Releases the folder, leaving unreported decisions to the next outbox that uses it. */
  @Override
  public synchronized void close() {
    if (isClosed) {
      return;
    }
    if (file != null) {
      seal();
    }
    isClosed = true;
    try {
      lock.close();
    } catch (IOException error) {
      LOG.log(Level.WARNING, "Cannot close the lock of an outbox: {0}", error.toString());
    }
    IN_USE.remove(realFolder);
  }

  /** Closes the newest segment. */
  private void seal() {
    try {
      if (file != null) {
        file.close();
      }
    } catch (IOException error) {
      LOG.log(Level.WARNING, "Cannot close a file of an outbox: {0}", error.toString());
    }
    file = null;
    sealed.addLast(newest);
    begin(newest.number + 1);
  }

  /** Keeps a copy of a damaged segment for inspection. */
  private synchronized void keepCopy(Segment segment, int readable, String unreadable) {
    Path copy = segment.damagedPath();
    String failure = "";
    try {
      Files.createLink(copy, segment.path);
      waitingBytes += segment.size;
    } catch (FileAlreadyExistsException known) {
      return;
    } catch (IOException | UnsupportedOperationException error) {
      failure = error.toString();
    }
    damaged++;
    LOG.log(
        Level.SEVERE,
        "A file in a gate''s outbox is damaged; a copy is kept for inspection: {0}, copy {1} {2},"
            + " readable decisions: {3}, {4}",
        new Object[] {segment.path, copy, failure, readable, unreadable});
  }

  /**
   * Sets aside decisions rejected by the server. The fault is that of the first one; they are logged
   * together, since a server may reject a thousand at once.
   */
  synchronized void reject(List<LocalDecision> decisions, String fault) {
    rejected += decisions.size();
    Path path = folder.resolve(REJECTED);
    String failure = "";
    try {
      ByteArrayOutputStream records = new ByteArrayOutputStream();
      for (LocalDecision each : decisions) {
        each.writeDelimitedTo(records);
      }
      if (!Files.exists(path)) {
        create(path);
      }
      try (FileOutputStream out = new FileOutputStream(path.toFile(), true)) {
        out.write(records.toByteArray());
      }
      waitingBytes += records.size();
    } catch (IOException error) {
      failure = error.toString();
    }
    LOG.log(
        Level.SEVERE,
        "The server rejected decisions of a gate; they are set aside: {0} in {1} {2}, {3}, first: {4}",
        new Object[] {
          decisions.size(), path, failure, LogText.ofOthers(fault), LogText.escaped(decisions.get(0).toString())
        });
    for (LocalDecision each : failure.isEmpty() ? Collections.<LocalDecision>emptyList() : decisions) {
      LOG.log(
          Level.SEVERE,
          "A rejected decision is recorded only in this log: {0}",
          LogText.escaped(each.toString()));
    }
  }
}
