import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.authorize.AccessControlList;
import org.apache.hadoop.yarn.api.records.QueueACL;
import org.apache.hadoop.yarn.conf.ConfigurationProvider;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.security.AccessType;
import org.apache.hadoop.yarn.security.ConfiguredYarnAuthorizer;
import org.apache.hadoop.yarn.security.Permission;
import org.apache.hadoop.yarn.security.YarnAuthorizationProvider;
import org.apache.hadoop.yarn.server.resourcemanager.RMContextImpl;
import org.apache.hadoop.yarn.server.resourcemanager.nodelabels.RMNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.QueueMetrics;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerDynamicEditException;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerUtils;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.AbstractCSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacitySchedulerQueueManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.QueuePath;

/** Answers questions about queues that do not exist, with a capacity scheduler of Hadoop. */
final class CreatedQueues {
  private CreatedQueues() {}

  /**
   * For each of {@code questions} (a user with groups and a queue): whether the queue does not
   * exist and would be created ({@code created}), and whether the user has each access, as
   * RMAppManager asks. Then {@code create}, if there is one, is created, and {@code acls} has the
   * texts of its ACLs, or {@code refused} why it is not.
   */
  static void answer(JsonNode question, Configuration site, ObjectNode answer) throws Exception {
    DefaultMetricsSystem.setMiniClusterMode(true);
    // The metrics of root belong to one kind of scheduler.
    QueueMetrics.clearQueueMetrics();
    YarnAuthorizationProvider.destroy();
    CapacityScheduler scheduler = started(question.get("scheduler").asText(), site);
    try {
      for (JsonNode asked : question.get("questions")) {
        ask(scheduler, asked, answer.withArray("answers").addObject());
      }
      if (question.hasNonNull("create")) {
        create(scheduler, question.get("create").asText(), answer);
      }
    } finally {
      scheduler.stop();
    }
  }

  private static CapacityScheduler started(String text, Configuration site) throws Exception {
    RMContextImpl context = new RMContextImpl();
    Labels labels = new Labels();
    labels.init(site);
    context.setNodeLabelManager(labels);
    context.setYarnConfiguration(site);
    context.setConfigurationProvider(new File(text));
    CapacityScheduler scheduler = new CapacityScheduler();
    scheduler.setConf(site);
    scheduler.setRMContext(context);
    scheduler.init(site);
    return scheduler;
  }

  private static void ask(CapacityScheduler scheduler, JsonNode asked, ObjectNode answer) {
    String path = asked.get("queue").asText();
    boolean isCreated = isCreated(scheduler, path);
    answer.put("created", isCreated);
    YarnAuthorizationProvider authorizer =
        YarnAuthorizationProvider.getInstance(scheduler.getConf());
    ConfiguredYarnAuthorizer dynamic = new ConfiguredYarnAuthorizer();
    if (isCreated) {
      List<Permission> permissions =
          scheduler
              .getCapacitySchedulerQueueManager()
              .getPermissionsForDynamicQueue(new QueuePath(path), scheduler.getConfiguration());
      dynamic.setPermission(permissions, null);
    }
    for (QueueACL access : QueueACL.values()) {
      answer.put(
          access.name(),
          Oracle.isAllowed(authorizer, asked, access)
              || Oracle.isAllowed(dynamic, asked, access));
    }
  }

  /** As CapacitySchedulerQueueManager.createQueue decides, without its limits of numbers. */
  private static boolean isCreated(CapacityScheduler scheduler, String path) {
    CapacitySchedulerQueueManager queues = scheduler.getCapacitySchedulerQueueManager();
    QueuePath asked = new QueuePath(path);
    if (queues.getQueue(path) != null || !asked.hasParent() || asked.hasEmptyPart()) {
      return false;
    }
    CSQueue parent = queues.getQueue(asked.getParent());
    if (parent != null
        && scheduler.getConfiguration().isAutoCreateChildQueueEnabled(parent.getQueuePath())) {
      return true;
    }
    try {
      queues.determineMissingParents(asked);
      return true;
    } catch (SchedulerDynamicEditException error) {
      return false;
    }
  }

  private static void create(CapacityScheduler scheduler, String path, ObjectNode answer)
      throws IOException {
    try {
      CSQueue queue =
          scheduler.getCapacitySchedulerQueueManager().createQueue(new QueuePath(path));
      Map<AccessType, AccessControlList> acls = ((AbstractCSQueue) queue).getACLs();
      ObjectNode texts = answer.putObject("acls");
      for (QueueACL access : QueueACL.values()) {
        texts.put(access.name(), acls.get(SchedulerUtils.toAccessType(access)).getAclString());
      }
    } catch (YarnException | ClassCastException error) {
      answer.put("refused", String.valueOf(error.getMessage()));
    }
  }

  /** A capacity-scheduler.xml, and no other file. */
  private static final class File extends ConfigurationProvider {
    private final String text;

    File(String text) {
      this.text = text;
    }

    @Override
    public void initInternal(Configuration configuration) {}

    @Override
    public void closeInternal() {}

    @Override
    public InputStream getConfigurationInputStream(Configuration configuration, String name) {
      if (!name.equals(YarnConfiguration.CS_CONFIGURATION_FILE)) {
        return null;
      }
      return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
    }
  }

  /** Labels of nodes that nothing stores. */
  static final class Labels extends RMNodeLabelsManager {
    @Override
    protected void initNodeLabelStore(Configuration configuration) {}

    @Override
    protected void initDispatcher(Configuration configuration) {}

    @Override
    protected void startDispatcher() {}

    @Override
    protected void stopDispatcher() {}
  }
}
