package io.queuegate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Collections;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** TLS, certificates and tokens of callers of a real server. */
class TlsServerTest {
  private static final Check SUE = Check.of("sue", "root.analytics.reports");

  @TempDir Path folder;
  private String address;

  private Client asking(TlsConfig tls, String token) throws Exception {
    ClientConfig.Builder config =
        ClientConfig.builder().address(address).timeout(Server.PATIENT).attempts(1).tls(tls);
    if (!token.isEmpty()) {
      config.tokenFile(Server.write(folder.resolve(token.substring(0, 5)), token).toString());
    }
    return Client.connect(config.build());
  }

  private void expect(TlsConfig tls, Class<? extends QueuegateException> kind, String text) throws Exception {
    try (Client client = asking(tls, "")) {
      String message = assertThrows(kind, () -> client.check(SUE)).getMessage();
      assertTrue(message.contains(text), message);
    }
  }

  @Test
  void callers() throws Exception {
    String token = "qg_" + String.join("", Collections.nCopies(43, "d"));
    byte[] digest = MessageDigest.getInstance("SHA-256").digest(token.getBytes(StandardCharsets.US_ASCII));
    StringBuilder hash = new StringBuilder();
    for (byte each : digest) {
      hash.append(String.format("%02x", each));
    }
    Path tokens = Server.write(folder.resolve("tokens"), "dashboard:" + hash + "\n");
    Path settings =
        Server.write(
            folder.resolve("queuegate.yaml"),
            "listen:\n"
                + "  - address: 127.0.0.1:0\n"
                + "    tls: {certificate_file: " + Server.tls("server.pem")
                + ", key_file: " + Server.tls("server.key")
                + ", client_ca_file: " + Server.tls("ca.pem") + "}\n"
                + "policy: {path: " + Server.example("queues.yaml") + "}\n"
                + "callers:\n"
                + "  certificates: {'dns:client.test': {roles: [check, sync]}}\n"
                + "  token_file: " + tokens + "\n"
                + "  tokens: {dashboard: {roles: [read]}}\n");
    TlsConfig trusting = TlsConfig.defaults().withCaFile(Server.tls("ca.pem").toString());
    TlsConfig known =
        trusting.withCertificate(Server.tls("client.pem").toString(), Server.tls("client.key").toString());
    try (Server server = Server.start("--config", settings.toString())) {
      address = server.address;
      try (Client scheduler = asking(known, "");
          Client dashboard = asking(known, token);
          Client stranger = asking(known, "wrong-token")) {
        assertTrue(scheduler.check(SUE).allowed());
        assertThrows(QueuegateException.NotPermitted.class, () -> scheduler.resolve("sue", ""));
        assertEquals("sue", dashboard.resolve("sue", "").getUserGroup().getUser());
        assertThrows(QueuegateException.NotPermitted.class, () -> dashboard.check(SUE));
        assertThrows(QueuegateException.NotPermitted.class, () -> stranger.check(SUE));
      }
      ClientConfig config = ClientConfig.builder().address(address).tls(known).build();
      try (Gate gate = Server.live(Gate.open(GateConfig.builder().client(config).build()))) {
        assertTrue(gate.checkLocally(SUE).allowed());
      }
      Class<QueuegateException.ServerUnavailable> unavailable = QueuegateException.ServerUnavailable.class;
      expect(trusting, unavailable, "withCertificate");
      expect(null, unavailable, "if it requires TLS, set");
      expect(known.withCaFile(Server.tls("other-ca.pem").toString()), unavailable, "is not trusted: set");
      expect(known.withServerName("a.test"), unavailable, "is for a different name");
      try (Client named = asking(known.withServerName("queuegate.test"), "")) {
        assertTrue(named.check(SUE).allowed());
      }
    }
  }
}
