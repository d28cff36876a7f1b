package example;

import io.queuegate.Check;
import io.queuegate.ClientConfig;
import io.queuegate.Decision;
import io.queuegate.Gate;
import io.queuegate.GateConfig;
import io.queuegate.QueuegateException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * A shim that decides with a gate. It reads applications, a user and a queue each, and keeps deciding
 * while the server restarts.
 */
public final class Shim {
  private Shim() {}

  public static void main(String[] arguments) throws IOException {
    GateConfig config =
        GateConfig.builder()
            .client(ClientConfig.builder().build()) // the address is in QUEUEGATE_ADDRESS
            .name("java-gate")
            .stale(Duration.ofHours(1))
            .onChange(() -> System.err.println("the policy has changed"))
            .build();
    try (Gate gate = Gate.open(config);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String[] words = (line + " ").split(" ", 3);
        System.out.println(admit(gate, Check.of(words[0], words[1])));
      }
    }
  }

  private static String admit(Gate gate, Check application) {
    try {
      Decision here = gate.checkLocally(application); // for threads that must not wait
      Decision decision = here == null ? gate.check(application) : here;
      if (!decision.allowed()) {
        return "reject: " + application.user() + " may not submit to " + application.queue();
      }
      String place = here == null ? "asked" : decision.stale() ? "decided here, without a lease" : "decided here";
      return "admit: by " + decision.reason() + " (" + place + ")";
    } catch (QueuegateException.RequestRejected error) {
      return "reject: " + error.getMessage();
    } catch (QueuegateException error) { // no answer, which is not a denial
      return "wait: " + error.getMessage();
    }
  }
}
