package io.queuegate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.Key;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a caller learns if the server's certificate or its own has expired, from a real server. */
class ExpiredCertificatesTest {
  private static final Check SUE = Check.of("sue", "root.analytics.reports");
  private static final String PASSWORD = "changeit";

  @TempDir Path folder;
  private Path store;

  @BeforeEach
  void certificates() throws Exception {
    store = folder.resolve("store.p12");
    issue("ca", "-ext", "bc:c", "-ext", "ku:c=keyCertSign");
    issue("valid", "-signer", "ca", "-ext", "san=ip:127.0.0.1");
    issue("expired", "-signer", "ca", "-ext", "san=ip:127.0.0.1", "-startdate", "-10d", "-validity", "9");
  }

  /** Makes a key and a certificate, and writes both in PEM format. */
  private void issue(String name, String... more) throws Exception {
    List<String> command =
        new ArrayList<>(
            Arrays.asList(
                Paths.get(System.getProperty("java.home"), "bin", "keytool").toString(),
                "-genkeypair", "-alias", name, "-dname", "CN=" + name, "-keyalg", "EC", "-groupname",
                "secp256r1", "-storetype", "PKCS12", "-keystore", store.toString(), "-storepass", PASSWORD));
    command.addAll(Arrays.asList(more));
    Process keytool = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = read(keytool.getInputStream());
    assertEquals(0, keytool.waitFor(), output);
    KeyStore keys = KeyStore.getInstance("PKCS12");
    try (InputStream input = Files.newInputStream(store)) {
      keys.load(input, PASSWORD.toCharArray());
    }
    Key key = keys.getKey(name, PASSWORD.toCharArray());
    Certificate certificate = keys.getCertificate(name);
    Server.write(folder.resolve(name + ".key"), pem("PRIVATE KEY", key.getEncoded()));
    Server.write(folder.resolve(name + ".pem"), pem("CERTIFICATE", certificate.getEncoded()));
  }

  private static String read(InputStream input) throws Exception {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    for (int each = input.read(); each >= 0; each = input.read()) {
      all.write(each);
    }
    return new String(all.toByteArray(), StandardCharsets.UTF_8);
  }

  private static String pem(String what, byte[] content) {
    String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(content);
    return "-----BEGIN " + what + "-----\n" + text + "\n-----END " + what + "-----\n";
  }

  private String file(String name) {
    return folder.resolve(name).toString();
  }

  /** Starts a server with a certificate, which demands one of callers. */
  private Server server(String certificate) throws Exception {
    String settings =
        "listen:\n"
            + "  - address: 127.0.0.1:0\n"
            + "    tls: {certificate_file: " + file(certificate + ".pem")
            + ", key_file: " + file(certificate + ".key") + ", client_ca_file: " + file("ca.pem") + "}\n"
            + "policy: {path: " + Server.example("queues.yaml") + "}\n"
            + "callers: {certificates: {'cn:valid': {roles: [check]}, 'cn:expired': {roles: [check]}}}\n";
    return Server.start("--config", Server.write(folder.resolve("queuegate.yaml"), settings).toString());
  }

  private Client connect(Server server, String certificate) {
    TlsConfig tls =
        TlsConfig.defaults()
            .withCaFile(file("ca.pem"))
            .withCertificate(file(certificate + ".pem"), file(certificate + ".key"));
    return Client.connect(
        ClientConfig.builder().address(server.address).timeout(Server.PATIENT).attempts(1).tls(tls).build());
  }

  private static String refusal(Client client) {
    return assertThrows(QueuegateException.ServerUnavailable.class, () -> client.check(SUE)).getMessage();
  }

  @Test
  void theCallersCertificate() throws Exception {
    try (Server server = server("valid");
        Client valid = connect(server, "valid");
        Client expired = connect(server, "expired")) {
      assertTrue(valid.check(SUE).allowed());
      String message = refusal(expired);
      assertTrue(message.contains("check that the certificate has not expired"), message);
    }
  }

  @Test
  void theServersCertificate() throws Exception {
    try (Server server = server("expired");
        Client valid = connect(server, "valid")) {
      String message = refusal(valid);
      assertTrue(message.contains("has expired, or is not valid yet: renew it on the server"), message);
    }
  }
}
