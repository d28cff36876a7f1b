package io.queuegate;

import com.google.gson.JsonObject;
import io.queuegate.internal.Names;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Locale;

/** A decision that a gate made in this process. The server's audit log does not contain it. Immutable. */
public final class DecisionRecord {
  private static final DateTimeFormatter TIME =
      DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSS'Z'", Locale.ROOT).withZone(ZoneOffset.UTC);

  private final String gate;
  private final Instant time;
  private final Check question;
  private final Decision decision;

  /**
   * Creates a record. Gates do so; tests of listeners may as well.
   *
   * @param gate the name of the gate
   * @param time when it decided
   * @param question the question
   * @param decision the decision
   */
  public DecisionRecord(String gate, Instant time, Check question, Decision decision) {
    this.gate = gate;
    this.time = time;
    this.question = question;
    this.decision = decision;
  }

  /**
   * Returns the question.
   *
   * @return the question
   */
  public Check question() {
    return question;
  }

  /**
   * Returns the decision.
   *
   * @return the decision
   */
  public Decision decision() {
    return decision;
  }

  /**
   * Returns a JSON object with the keys of the server's audit records.
   *
   * @return the object, in one line
   */
  public String json() {
    JsonObject record = new JsonObject();
    record.addProperty("time", TIME.format(time));
    record.addProperty("caller", "gate:" + gate);
    record.addProperty("method", "CheckQueueAccess");
    record.addProperty("user", question.user());
    record.addProperty("partition", Names.partition(question.partition()));
    if (question.groups() != null) {
      record.addProperty("groups_in_request", question.groups().size());
    }
    record.addProperty("queue", question.queue());
    record.addProperty("access", name(question.access()));
    record.addProperty("decision", decision.allowed() ? "allowed" : "denied");
    record.addProperty("reason", name(decision.reason()));
    record.addProperty("matched_queue", decision.matchedQueue());
    record.addProperty("matched_name", decision.matchedSubject());
    record.addProperty("revision", decision.policyRevision());
    if (decision.stale()) {
      record.addProperty("stale", true);
    }
    return record.toString();
  }

  private static String name(Enum<?> value) {
    return value.name().toLowerCase(Locale.ROOT);
  }
}
