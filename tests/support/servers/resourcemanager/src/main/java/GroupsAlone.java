import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.security.Groups;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * Uses Hadoop's group mapping without a daemon, with the configuration in the class path.
 *
 * <p>The lines of its input and output are those of {@link Harness}, with the operations {@code groups} and
 * {@code identity}.
 */
public final class GroupsAlone {
  private GroupsAlone() {}

  public static void main(String[] arguments) throws Exception {
    PrintStream output = System.out;
    System.setOut(System.err);
    Configuration configuration = new Configuration();
    UserGroupInformation.setConfiguration(configuration);
    Groups groups = Groups.getUserToGroupsMappingService(configuration);
    ObjectMapper json = new ObjectMapper();
    output.println("{}");
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      JsonNode question = json.readTree(line);
      String user = question.path("user").asText();
      ObjectNode answer = json.createObjectNode();
      try {
        if (question.path("op").asText().equals("groups")) {
          groups.getGroups(user).forEach(answer.putArray("groups")::add);
        } else {
          UserGroupInformation.createRemoteUser(user).getGroups()
              .forEach(answer.putArray("groups")::add);
        }
      } catch (Exception error) {
        answer.put("error", String.valueOf(error.getMessage()));
      }
      output.println(json.writeValueAsString(answer));
    }
    System.exit(0); // its shutdown hooks release the lease
  }
}
