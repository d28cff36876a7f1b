import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.Groups;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.security.AccessRequest;
import org.apache.hadoop.yarn.security.AccessType;
import org.apache.hadoop.yarn.security.PrivilegedEntity;
import org.apache.hadoop.yarn.security.PrivilegedEntity.EntityType;
import org.apache.hadoop.yarn.security.YarnAuthorizationProvider;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;

/**
 * Runs a real ResourceManager with the configuration in the class path, and asks it questions as
 * users do: over its RPC and HTTP ports.
 *
 * <p>The first line of the output says that it runs. Each line of the input is a question, and each
 * further line of the output its answer, both in JSON. Where YARN throws, the answer is its message,
 * as {@code error}.
 */
public final class Harness {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Harness() {}

  public static void main(String[] arguments) throws Exception {
    PrintStream output = System.out;
    System.setOut(System.err);
    long began = System.nanoTime();
    DefaultMetricsSystem.initialize("ResourceManager");
    ResourceManager manager = new ResourceManager();
    ObjectNode started = JSON.createObjectNode();
    try {
      manager.init(new YarnConfiguration());
      manager.start();
    } catch (Throwable error) {
      started.put("error", messages(error));
      write(output, started);
      System.exit(1);
    }
    write(output, started.put("seconds", (System.nanoTime() - began) / 1e9));
    Users users = new Users(manager);
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      ObjectNode answer = JSON.createObjectNode();
      long asked = System.nanoTime();
      try {
        answer(users, JSON.readTree(line), answer);
      } catch (Throwable error) {
        answer.put("error", messages(error));
      }
      write(output, answer.put("seconds", (System.nanoTime() - asked) / 1e9));
    }
    System.exit(0); // its shutdown hooks release the lease
  }

  private static void answer(Users users, JsonNode question, ObjectNode answer) throws Exception {
    String application = question.path("application").asText();
    String queue = question.path("queue").asText();
    Users.Caller caller =
        users.caller(question.path("user").asText("nobody"), question.path("real_user").asText(""));
    switch (question.path("op").asText()) {
      case "submit":
        answer.put("application", caller.submit(queue));
        break;
      case "submissions":
        submissions(users, question, queue, answer);
        break;
      case "state":
        caller.state(application, answer);
        break;
      case "kill":
        caller.kill(application);
        break;
      case "move":
        caller.move(application, queue);
        break;
      case "queues":
        caller.usable(answer.putObject("queues"));
        break;
      case "list":
        answer.put("count", caller.applications());
        break;
      case "access":
        answer.put("allowed", caller.access(queue, "SUBMIT_APPLICATIONS", question.path("administrator").asText()));
        break;
      case "refresh":
        caller.refreshQueues();
        break;
      case "groups":
        Groups.getUserToGroupsMappingService().getGroups(question.path("user").asText())
            .forEach(answer.putArray("groups")::add);
        break;
      case "identity":
        caller.identity().getGroups().forEach(answer.putArray("groups")::add);
        break;
      case "role":
        answer.put("role", users.manager().getRMContext().getHAServiceState().toString());
        break;
      case "transition":
        caller.transition(question.path("to").asText());
        break;
      case "check":
        check(users, question.path("questions"), answer.putArray("allowed"));
        break;
      case "measure":
        measure(users, queue, caller, question.path("count").asInt(), answer);
        break;
      case "metrics":
        metrics(answer);
        break;
      case "heap":
        System.gc();
        answer.put("bytes", ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed());
        break;
      default:
        throw new IllegalArgumentException("unknown operation");
    }
  }

  /**
   * Submits applications, each by the next of the users, and measures the time until the scheduler has
   * accepted it.
   */
  private static void submissions(Users users, JsonNode question, String queue, ObjectNode answer)
      throws Exception {
    ArrayNode times = answer.putArray("times");
    for (JsonNode user : question.path("users")) {
      Users.Caller caller = users.caller(user.asText(), "");
      caller.connect();
      long began = System.nanoTime();
      caller.await(caller.submit(queue), "ACCEPTED");
      times.add((System.nanoTime() - began) / 1e9);
    }
  }

  /** Asks on a thread on which groups are not waited for, as the scheduler does. */
  private static void check(Users users, JsonNode questions, ArrayNode allowed) {
    YarnAuthorizationProvider authorizer =
        YarnAuthorizationProvider.getInstance(users.manager().getConfig());
    for (JsonNode question : questions) {
      Users.Caller caller = users.caller(question.path("user").asText(), "");
      allowed.add(isAllowed(authorizer, question.path("queue").asText(), caller));
    }
  }

  private static boolean isAllowed(
      YarnAuthorizationProvider authorizer, String queue, Users.Caller caller) {
    return authorizer.checkPermission(
        new AccessRequest(
            new PrivilegedEntity(EntityType.QUEUE, queue), caller.identity(), AccessType.SUBMIT_APP,
            "", "", "", Collections.emptyList()));
  }

  /** Measures checks in this process, as the scheduler makes them: the median and p99.9 in nanoseconds. */
  private static void measure(
      Users users, String queue, Users.Caller caller, int count, ObjectNode answer) {
    YarnAuthorizationProvider authorizer =
        YarnAuthorizationProvider.getInstance(users.manager().getConfig());
    long[] nanos = new long[count];
    for (int i = 0; i < count; i++) {
      long began = System.nanoTime();
      isAllowed(authorizer, queue, caller);
      nanos[i] = System.nanoTime() - began;
    }
    Arrays.sort(nanos);
    answer.put("median", nanos[count / 2]).put("p99.9", nanos[(int) (count * 0.999)]);
  }

  private static void metrics(ObjectNode answer) throws Exception {
    MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
    ObjectName name = new ObjectName("Hadoop:service=ResourceManager,name=QueuegateAuthorizer");
    for (MBeanAttributeInfo attribute : beans.getMBeanInfo(name).getAttributes()) {
      answer.put(attribute.getName(), String.valueOf(beans.getAttribute(name, attribute.getName())));
    }
  }

  private static String messages(Throwable error) {
    StringBuilder messages = new StringBuilder();
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      String message = String.valueOf(cause.getMessage());
      messages.append(message, 0, (message + "\n").indexOf('\n')).append('\n');
    }
    return messages.toString();
  }

  private static void write(PrintStream output, ObjectNode answer) throws Exception {
    output.write(JSON.writeValueAsBytes(answer));
    output.write('\n');
    output.flush();
  }
}
