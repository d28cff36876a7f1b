package io.queuegate.internal;

import com.google.protobuf.Timestamp;
import io.queuegate.Access;
import io.queuegate.Check;
import io.queuegate.Decision;
import io.queuegate.v1.AccessType;
import io.queuegate.v1.CheckQueueAccessResponse;
import io.queuegate.v1.LocalDecision;
import io.queuegate.v1.Reason;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A file of length-prefixed decisions. Gates in other languages write the same. */
final class Segment {
  private static final Pattern NAME = Pattern.compile("(\\d{1,20})\\.decisions");
  // As the contract's well-known type defines them.
  private static final long MIN_SECONDS = -62_135_596_800L;
  private static final long MAX_SECONDS = 253_402_300_799L;

  final long number;
  final Path path;
  long size;

  Segment(Path folder, long number) {
    this(number, folder.resolve(String.format(Locale.ROOT, "%020d.decisions", number)));
  }

  private Segment(long number, Path path) {
    this.number = number;
    this.path = path;
  }

  /** Returns the segment in a file; null if the file is not a segment. */
  static Segment of(Path path) {
    Matcher name = NAME.matcher(path.getFileName().toString());
    if (!name.matches()) {
      return null;
    }
    try {
      return new Segment(Long.parseLong(name.group(1)), path);
    } catch (NumberFormatException tooLarge) {
      return null;
    }
  }

  Path damagedPath() {
    String name = path.getFileName().toString();
    return path.resolveSibling(name.replace(".decisions", ".damaged"));
  }

  /** Adds the decisions up to the first fault to a list, and returns the fault; null if there is none. */
  String read(List<LocalDecision> into) {
    int start = 0;
    try {
      byte[] content = Files.readAllBytes(path);
      ByteArrayInputStream rest = new ByteArrayInputStream(content);
      while (rest.available() > 0) {
        start = content.length - rest.available();
        LocalDecision decision = LocalDecision.parseDelimitedFrom(rest);
        if (decision == null || !isPossible(decision)) {
          return "there is no complete decision at byte " + start;
        }
        into.add(decision);
      }
      return null;
    } catch (com.google.protobuf.InvalidProtocolBufferException malformed) {
      return "there is no complete decision at byte " + start;
    } catch (IOException error) {
      return error.toString();
    }
  }

  /**
   * Returns whether a gate could have written a decision. After a crash of the machine, a file may contain
   * other bytes, such as zeros.
   */
  private static boolean isPossible(LocalDecision decision) {
    Timestamp time = decision.getTime();
    return !decision.getUser().isEmpty()
        && !decision.getQueue().isEmpty()
        && decision.getDecision().getReason() != Reason.REASON_UNSPECIFIED
        && decision.hasTime()
        && MIN_SECONDS <= time.getSeconds()
        && time.getSeconds() <= MAX_SECONDS
        && 0 <= time.getNanos()
        && time.getNanos() < 1_000_000_000;
  }

  static LocalDecision decision(Check question, String partition, Decision decision) {
    Instant now = Instant.now();
    List<String> groups = question.groups();
    return LocalDecision.newBuilder()
        .setTime(Timestamp.newBuilder().setSeconds(now.getEpochSecond()).setNanos(now.getNano()))
        .setUser(question.user())
        .setPartition(partition)
        .setQueue(question.queue())
        .setAccess(
            question.access() == Access.ADMIN
                ? AccessType.ACCESS_TYPE_ADMIN
                : AccessType.ACCESS_TYPE_SUBMIT)
        .setRealUser(question.realUser())
        .setGroupsInRequest(groups == null ? 0 : groups.size())
        .setNoGroups(groups != null && groups.isEmpty())
        .setDecision(
            CheckQueueAccessResponse.newBuilder()
                .setAllowed(decision.allowed())
                .setReason(Reason.valueOf("REASON_" + decision.reason().name()))
                .setMatchedQueue(decision.matchedQueue())
                .setMatchedSubject(decision.matchedSubject())
                .setPolicyRevision(decision.policyRevision())
                .setEvaluatedQueue(decision.evaluatedQueue()))
        .setStale(decision.stale())
        .build();
  }
}
