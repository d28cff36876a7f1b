import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.PrivilegedExceptionAction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.yarn.applications.distributedshell.ApplicationMaster;
import org.apache.hadoop.yarn.applications.distributedshell.Client;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * Runs a ResourceManager and a NodeManager in one process, and Hadoop's distributed shell in them.
 *
 * <p>The first line of the output says that they run. Each line of the input is a user with a queue and
 * a command, and each further line of the output says whether the application succeeded, both in JSON.
 */
public final class Harness {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Harness() {}

  public static void main(String[] arguments) throws Exception {
    PrintStream output = System.out;
    System.setOut(System.err);
    Path site = Files.createDirectories(Path.of("site").toAbsolutePath()).resolve("yarn-site.xml");
    YarnConfiguration settings = new YarnConfiguration();
    settings.set(
        YarnConfiguration.YARN_APPLICATION_CLASSPATH,
        site.getParent() + "," + System.getProperty("java.class.path").replace(File.pathSeparator, ","));
    MiniYARNCluster cluster = new MiniYARNCluster("cluster", 1, 1, 1);
    ObjectNode started = JSON.createObjectNode();
    try {
      cluster.init(settings);
      cluster.start();
      if (!cluster.waitForNodeManagersToConnect(60_000)) {
        throw new IllegalStateException("no NodeManager has connected");
      }
      try (OutputStream file = Files.newOutputStream(site)) { // for the ApplicationMaster
        cluster.getConfig().writeXml(file);
      }
    } catch (Throwable error) {
      write(output, started.put("error", cause(error)));
      System.exit(1);
    }
    write(output, started);
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      ObjectNode answer = JSON.createObjectNode();
      try {
        answer.put("succeeded", run(cluster.getConfig(), JSON.readTree(line)));
      } catch (Throwable error) {
        answer.put("error", cause(error));
      }
      write(output, answer);
    }
    System.exit(0);
  }

  private static boolean run(Configuration settings, JsonNode question) throws Exception {
    String[] arguments = {
      "--jar", ApplicationMaster.class.getProtectionDomain().getCodeSource().getLocation().getPath(),
      "--queue", question.path("queue").asText(),
      "--shell_command", question.path("command").asText(),
      "--num_containers", "1", "--master_memory", "256", "--container_memory", "128",
    };
    UserGroupInformation user =
        UserGroupInformation.createRemoteUser(question.path("user").asText());
    return user.doAs((PrivilegedExceptionAction<Boolean>) () -> {
      Client client = new Client(new Configuration(settings));
      return client.init(arguments) && client.run();
    });
  }

  private static String cause(Throwable error) {
    Throwable first = error;
    while (first.getCause() != null) {
      first = first.getCause();
    }
    return first.toString();
  }

  private static void write(PrintStream output, ObjectNode answer) throws Exception {
    output.write(JSON.writeValueAsBytes(answer));
    output.write('\n');
    output.flush();
  }
}
