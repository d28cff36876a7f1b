import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.yarn.api.records.QueueACL;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.security.YarnAuthorizationProvider;
import org.apache.hadoop.yarn.server.resourcemanager.RMContextImpl;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.QueueMetrics;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FSLeafQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler;

/** Answers questions about the queues of a fair-scheduler.xml, with a fair scheduler of Hadoop. */
final class FairQueues {
  private FairQueues() {}

  /**
   * The queues that exist once the scheduler has read its file ({@code queues}): whether each is a
   * leaf, and which of {@code users} have each access.
   */
  static void answer(JsonNode question, ObjectNode answer) throws Exception {
    DefaultMetricsSystem.setMiniClusterMode(true);
    // The metrics of root belong to one kind of scheduler.
    QueueMetrics.clearQueueMetrics();
    YarnAuthorizationProvider.destroy();
    Path file = Files.createTempFile("fair-scheduler", ".xml");
    try {
      Files.write(file, question.get("scheduler").asText().getBytes(StandardCharsets.UTF_8));
      FairScheduler scheduler = started(file);
      ObjectNode queues = answer.putObject("queues");
      for (FSQueue queue : scheduler.getQueueManager().getQueues()) {
        ObjectNode each = queues.putObject(queue.getName());
        each.put("leaf", queue instanceof FSLeafQueue);
        for (QueueACL access : QueueACL.values()) {
          each.putArray(access.name());
          for (JsonNode user : question.get("users")) {
            UserGroupInformation caller =
                UserGroupInformation.createUserForTesting(user.asText(), new String[0]);
            if (scheduler.checkAccess(caller, access, queue.getName())) {
              each.withArray(access.name()).add(user.asText());
            }
          }
        }
      }
      scheduler.stop();
    } finally {
      Files.delete(file);
    }
  }

  private static FairScheduler started(Path file) throws IOException {
    Configuration site = new YarnConfiguration();
    site.set("yarn.acl.enable", "true");
    site.set("yarn.scheduler.fair.allocation.file", file.toString());
    RMContextImpl context = new RMContextImpl();
    CreatedQueues.Labels labels = new CreatedQueues.Labels();
    labels.init(site);
    context.setNodeLabelManager(labels);
    context.setYarnConfiguration(site);
    FairScheduler scheduler = new FairScheduler();
    scheduler.setRMContext(context);
    scheduler.init(site);
    return scheduler;
  }
}
