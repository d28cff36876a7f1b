import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.authorize.AccessControlList;
import org.apache.hadoop.yarn.api.records.QueueACL;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.security.AccessRequest;
import org.apache.hadoop.yarn.security.AccessType;
import org.apache.hadoop.yarn.security.ConfiguredYarnAuthorizer;
import org.apache.hadoop.yarn.security.Permission;
import org.apache.hadoop.yarn.security.PrivilegedEntity;
import org.apache.hadoop.yarn.security.PrivilegedEntity.EntityType;
import org.apache.hadoop.yarn.security.YarnAuthorizationProvider;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerUtils;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacitySchedulerConfiguration;

/**
 * Answers questions about the files of YARN's schedulers with Hadoop's own classes.
 *
 * <p>Each line of the input is a question, and each line of the output its answer, both in JSON.
 * A question has the texts of a yarn-site.xml ({@code site}) and of a scheduler's file
 * ({@code scheduler}), either of which may be missing, and an operation ({@code op}). Where Hadoop
 * throws, the answer is its message, as {@code error}.
 */
public final class Oracle {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Oracle() {}

  public static void main(String[] arguments) throws Exception {
    PrintStream output = System.out;
    System.setOut(System.err);
    // Nothing here logs in, and Hadoop's own login asks the system for its user.
    UserGroupInformation.setLoginUser(UserGroupInformation.createRemoteUser("oracle"));
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      byte[] answer = JSON.writeValueAsBytes(answer(JSON.readTree(line)));
      output.write(answer);
      output.write('\n');
      output.flush();
    }
  }

  private static ObjectNode answer(JsonNode question) {
    ObjectNode answer = JSON.createObjectNode();
    try {
      String operation = question.path("op").asText();
      switch (operation) {
        case "values":
          values(question, answer);
          break;
        case "queues":
          queues(question, answer);
          break;
        case "created":
          CreatedQueues.answer(question, resourceManager(question), answer);
          break;
        case "fair":
          FairQueues.answer(question, answer);
          break;
        default:
          throw new IllegalArgumentException("unknown operation " + operation);
      }
    } catch (Exception error) {
      answer.removeAll();
      answer.put("error", error.toString());
    }
    return answer;
  }

  /** The ResourceManager's configuration, without that of the scheduler. */
  private static Configuration resourceManager(JsonNode question) {
    Configuration found = new YarnConfiguration();
    add(found, question, "site", "yarn-site.xml");
    return found;
  }

  /** What the scheduler reads, as FileBasedCSConfigurationProvider builds it. */
  private static CapacitySchedulerConfiguration scheduler(JsonNode question) {
    Configuration found = new Configuration(resourceManager(question));
    add(found, question, "scheduler", "capacity-scheduler.xml");
    return new CapacitySchedulerConfiguration(found, false);
  }

  private static void add(Configuration to, JsonNode question, String key, String name) {
    if (question.hasNonNull(key)) {
      byte[] text = question.get(key).asText().getBytes(StandardCharsets.UTF_8);
      to.addResource(new ByteArrayInputStream(text), name);
    }
  }

  /**
   * The values of {@code names}: as the ResourceManager reads them ({@code site}), and as its
   * scheduler does. A value that Hadoop refuses is an object with its message.
   */
  private static void values(JsonNode question, ObjectNode answer) {
    Configuration site = resourceManager(question);
    Configuration merged = scheduler(question);
    ObjectNode inSite = answer.putObject("site");
    ObjectNode inScheduler = answer.putObject("scheduler");
    for (JsonNode name : question.get("names")) {
      value(site, name.asText(), inSite);
      value(merged, name.asText(), inScheduler);
    }
  }

  private static void value(Configuration from, String name, ObjectNode to) {
    try {
      to.put(name, from.get(name));
    } catch (IllegalStateException error) {
      to.putObject(name).put("error", error.getMessage());
    }
  }

  /**
   * The queues that the files list with the texts of their ACLs, and for each of {@code questions}
   * (a user with groups and a queue) whether the user has each access.
   */
  private static void queues(JsonNode question, ObjectNode answer) throws Exception {
    Configuration site = resourceManager(question);
    CapacitySchedulerConfiguration merged = scheduler(question);
    answer.put("enabled", YarnConfiguration.isAclEnabled(site));
    answer.put(
        "admins",
        site.get(YarnConfiguration.YARN_ADMIN_ACL, YarnConfiguration.DEFAULT_YARN_ADMIN_ACL));
    ConfiguredYarnAuthorizer authorizer = new ConfiguredYarnAuthorizer();
    authorizer.init(site);
    ObjectNode found = answer.putObject("queues");
    List<Permission> permissions = new ArrayList<>();
    Deque<String> waiting = new ArrayDeque<>(List.of(CapacitySchedulerConfiguration.ROOT));
    while (!waiting.isEmpty()) {
      String path = waiting.pop();
      ObjectNode queue = found.putObject(path);
      for (QueueACL access : QueueACL.values()) {
        queue.put(access.name(), merged.getAcl(path, access).getAclString());
      }
      Map<AccessType, AccessControlList> acls = merged.getAcls(path);
      permissions.add(new Permission(queue(path), acls));
      String[] children = merged.getQueues(path);
      for (String child : children == null ? new String[0] : children) {
        waiting.push(path + "." + child);
      }
    }
    authorizer.setPermission(permissions, UserGroupInformation.getLoginUser());
    for (JsonNode asked : question.path("questions")) {
      ObjectNode access = answer.withArray("answers").addObject();
      for (QueueACL each : QueueACL.values()) {
        access.put(each.name(), isAllowed(authorizer, asked, each));
      }
    }
  }

  /** Whether an authorizer grants the user of a question access to its queue. */
  static boolean isAllowed(
      YarnAuthorizationProvider authorizer, JsonNode asked, QueueACL access) {
    List<String> groups = new ArrayList<>();
    asked.path("groups").forEach(group -> groups.add(group.asText()));
    UserGroupInformation user =
        UserGroupInformation.createUserForTesting(
            asked.get("user").asText(), groups.toArray(new String[0]));
    return authorizer.checkPermission(
        new AccessRequest(
            queue(asked.get("queue").asText()),
            user,
            SchedulerUtils.toAccessType(access),
            null,
            null,
            null,
            List.of()));
  }

  private static PrivilegedEntity queue(String path) {
    return new PrivilegedEntity(EntityType.QUEUE, path);
  }
}
