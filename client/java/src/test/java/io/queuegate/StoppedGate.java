package io.queuegate;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** A process with a gate, which reads users and queues, and prints the revisions of the decisions. */
final class StoppedGate {
  private StoppedGate() {}

  public static void main(String[] arguments) throws Exception {
    ClientConfig client = ClientConfig.builder().address(arguments[0]).timeout(Server.PATIENT).build();
    GateConfig config = GateConfig.builder().client(client).name("stopped gate").build();
    try (Gate gate = Gate.open(config);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String[] words = line.split(" ");
        long before = gate.decided();
        Decision decision = gate.check(Check.of(words[0], words[1]));
        boolean isLocal = gate.decided() > before;
        System.out.println(decision.policyRevision() + " " + decision.allowed() + " " + isLocal);
      }
    }
  }
}
