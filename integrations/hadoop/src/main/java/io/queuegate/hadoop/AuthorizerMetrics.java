package io.queuegate.hadoop;

import static org.apache.hadoop.metrics2.lib.Interns.info;

import java.util.Locale;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import org.apache.hadoop.metrics2.MetricsCollector;
import org.apache.hadoop.metrics2.MetricsRecordBuilder;
import org.apache.hadoop.metrics2.MetricsSource;

/** The authorizer's metrics, in Hadoop's metrics system: over JMX, Prometheus and its sinks. */
final class AuthorizerMetrics implements MetricsSource {
  /** The name of the source. */
  static final String NAME = "QueuegateAuthorizer";

  private static final String CONTEXT = "queuegate";

  private final Counters counters;
  private final GateLink link;
  private final GroupsCopy groups; // null if the server's groups are used

  AuthorizerMetrics(Counters counters, GateLink link, GroupsCopy groups) {
    this.counters = counters;
    this.link = link;
    this.groups = groups;
  }

  @Override
  public void getMetrics(MetricsCollector collector, boolean all) {
    MetricsRecordBuilder record = collector.addRecord(NAME).setContext(CONTEXT);
    record.tag(info("GateState", "Whether the gate decides"), link.state());
    record.addGauge(info("GateLive", "1 if the gate has a lease"), link.isLive() ? 1 : 0);
    record.addGauge(info("PolicyRevision", "The revision of the policy; 0 without one"), link.revision());
    record.addGauge(info("PolicyAgeMillis", "Milliseconds since a server confirmed the policy; -1 without one"),
      link.policyAgeMillis());
    counters.answers.forEach((answer, count) ->
      record.addCounter(info("Answers" + name(answer), "Questions with this answer of the gate"), count.sum()));
    record.addCounter(info("Fallbacks", "Questions that the fallback decided"), counters.allFallbacks());
    record.addCounter(info("GroupWaits", "Questions that waited for a user's groups"), counters.waits.sum());
    record.addCounter(info("Errors", "Errors that were kept from the ResourceManager"), counters.failures.sum());
    if (groups != null) {
      record.addGauge(info("GroupUsers", "Users whose groups are kept"), groups.size());
      record.addGauge(info("GroupsAgeMillis", "Milliseconds since the oldest groups were looked up; 0 without any"),
        groups.oldestMillis());
      record.addCounter(info("GroupFailures", "Failed look-ups of groups"), groups.failures());
    }
    for (Map.Entry<String, LongAdder> queue : counters.fallbacks.entrySet()) {
      collector.addRecord(NAME + "Queue").setContext(CONTEXT)
        .tag(info("Queue", "The queue"), queue.getKey())
        .addCounter(info("Fallbacks", "Questions that the fallback decided"), queue.getValue().sum());
    }
  }

  private static String name(Answer answer) {
    StringBuilder name = new StringBuilder();
    for (String word : answer.name().split("_")) {
      name.append(word.charAt(0)).append(word.substring(1).toLowerCase(Locale.ROOT));
    }
    return name.toString();
  }
}
