package io.queuegate;

import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContext;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContextBuilder;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslProvider;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.security.cert.CertificateFactory;
import java.util.Objects;
import java.util.function.UnaryOperator;

/**
 * Settings of TLS connections, which use the JDK's TLS. The files are in PEM format, and are read once by
 * {@link Client#connect}. Immutable: each {@code with…} method returns a copy.
 */
public final class TlsConfig {
  private final String caFile;
  private final String certificateFile;
  private final String keyFile;
  private final String serverName;
  private final boolean fromEnvironment;

  private TlsConfig(
      String caFile, String certificateFile, String keyFile, String serverName, boolean fromEnvironment) {
    this.caFile = Objects.requireNonNull(caFile, "caFile");
    this.certificateFile = Objects.requireNonNull(certificateFile, "certificateFile");
    this.keyFile = Objects.requireNonNull(keyFile, "keyFile");
    this.serverName = Objects.requireNonNull(serverName, "serverName");
    this.fromEnvironment = fromEnvironment;
  }

  /**
   * Trusts the JVM's certificate authorities.
   *
   * @return the settings
   */
  public static TlsConfig defaults() {
    return new TlsConfig("", "", "", "", false);
  }

  /**
   * Trusts only the certificate authorities in a file.
   *
   * @param caFile the path of the file; empty for the JVM's authorities
   * @return the settings
   */
  public TlsConfig withCaFile(String caFile) {
    return new TlsConfig(caFile, certificateFile, keyFile, serverName, false);
  }

  /**
   * Presents a client certificate, for a server that requires mTLS.
   *
   * @param certificateFile the path of the file with the certificate and its chain
   * @param keyFile the path of the file with its private key, in PKCS#8 without a passphrase
   * @return the settings
   */
  public TlsConfig withCertificate(String certificateFile, String keyFile) {
    return new TlsConfig(caFile, certificateFile, keyFile, serverName, false);
  }

  /**
   * Expects a different name in the server's certificate from the one in the address.
   *
   * @param serverName the name
   * @return the settings
   */
  public TlsConfig withServerName(String serverName) {
    return new TlsConfig(caFile, certificateFile, keyFile, serverName, false);
  }

  /** Returns the settings in the environment, or null if there are none. */
  static TlsConfig ofEnvironment(UnaryOperator<String> environment) {
    TlsConfig settings =
        new TlsConfig(
            orEmpty(environment.apply("QUEUEGATE_CA_FILE")),
            orEmpty(environment.apply("QUEUEGATE_CERTIFICATE_FILE")),
            orEmpty(environment.apply("QUEUEGATE_KEY_FILE")),
            orEmpty(environment.apply("QUEUEGATE_SERVER_NAME")),
            true);
    boolean isSet =
        !(settings.caFile + settings.certificateFile + settings.keyFile + settings.serverName).isEmpty();
    return isSet ? settings : null;
  }

  private static String orEmpty(String text) {
    return text == null ? "" : text;
  }

  String serverName() {
    return serverName;
  }

  /** Reads the files. Throws IllegalArgumentException, which names the setting. */
  SslContext load() {
    String ca = fromEnvironment ? "QUEUEGATE_CA_FILE" : "caFile";
    String certificate = fromEnvironment ? "QUEUEGATE_CERTIFICATE_FILE" : "certificateFile";
    String key = fromEnvironment ? "QUEUEGATE_KEY_FILE" : "keyFile";
    if (certificateFile.isEmpty() != keyFile.isEmpty()) {
      throw new IllegalArgumentException(certificate + " and " + key + " must be given together");
    }
    SslContextBuilder builder = SslContextBuilder.forClient();
    if (!caFile.isEmpty()) {
      byte[] content = read(ca, caFile);
      try {
        if (CertificateFactory.getInstance("X.509")
            .generateCertificates(new ByteArrayInputStream(content))
            .isEmpty()) {
          throw new GeneralSecurityException("no certificate");
        }
        builder.trustManager(new ByteArrayInputStream(content));
      } catch (GeneralSecurityException | IllegalArgumentException error) {
        throw new IllegalArgumentException(
            ca + " " + Texts.quoted(caFile) + " does not contain a PEM certificate", error);
      }
    }
    if (!certificateFile.isEmpty()) {
      byte[] chain = read(certificate, certificateFile);
      byte[] secret = read(key, keyFile);
      try {
        builder.keyManager(new ByteArrayInputStream(chain), new ByteArrayInputStream(secret));
      } catch (IllegalArgumentException error) {
        throw new IllegalArgumentException(
            certificate + " " + Texts.quoted(certificateFile) + " and " + key + " " + Texts.quoted(keyFile)
                + " must be a PEM certificate and its private key in PKCS#8 without a passphrase",
            error);
      }
    }
    try {
      return GrpcSslContexts.configure(builder, SslProvider.JDK).build();
    } catch (IOException | RuntimeException error) {
      throw new IllegalArgumentException(
          "this JVM cannot use these TLS settings, or has no ALPN (Java 8 has it since 8u252): " + error,
          error);
    }
  }

  private static byte[] read(String setting, String path) {
    try {
      Path file = Paths.get(path);
      if (Files.exists(file) && !Files.isRegularFile(file)) { // opening a pipe blocks until it has a writer
        throw new IOException("it must be a regular file");
      }
      return Files.readAllBytes(file);
    } catch (IOException | RuntimeException error) {
      throw new IllegalArgumentException(setting + ": cannot read " + Texts.quoted(path) + ": " + error, error);
    }
  }
}
