package io.queuegate;

import java.nio.charset.StandardCharsets;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A validated server address. gRPC accepts nearly any text and fails on first use. */
final class Address {
  static final String DEFAULT = "127.0.0.1:50051";
  private static final String VARIABLE = "QUEUEGATE_ADDRESS";
  private static final int MAX_SOCKET_PATH_BYTES = 107;
  private static final String DNS = "dns:///"; // as in targets of gRPC
  private static final String ACCEPTED = "use HOST:PORT, [IPV6]:PORT or unix:/PATH";
  private static final Pattern HOST_NAME =
      Pattern.compile("[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?");
  private static final Pattern IPV6 = Pattern.compile("[0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9_.-]{1,32})?");
  private static final Pattern LOOPBACK =
      Pattern.compile("127\\.\\d{1,3}\\.\\d{1,3}\\.\\d{1,3}|\\[(?:0*:)*0*:0*1]|(?i:localhost)");

  /** As given, for messages. */
  final String text;

  /** The path of a Unix socket, or null. */
  final String socketPath;

  /** The target for gRPC; null for a Unix socket. */
  final String target;

  /** Whether the server runs on this machine. */
  final boolean isLocal;

  private Address(String text, String socketPath, String target, boolean isLocal) {
    this.text = text;
    this.socketPath = socketPath;
    this.target = target;
    this.isLocal = isLocal;
  }

  /** Parses an address. If it is empty, the environment or the default is used. */
  static Address parse(String given, UnaryOperator<String> environment) {
    String setting = "address";
    String text = given;
    if (text.isEmpty()) {
      setting = VARIABLE;
      text = environment.apply(VARIABLE);
      text = text == null || text.isEmpty() ? DEFAULT : text;
    }
    try {
      return text.startsWith("unix:") ? ofSocket(text) : ofNetwork(text);
    } catch (IllegalArgumentException fault) {
      throw new IllegalArgumentException(setting + " " + Texts.quoted(text) + ": " + fault.getMessage());
    }
  }

  private static Address ofSocket(String text) {
    String path = text.substring("unix:".length());
    path = path.startsWith("///") ? path.substring(2) : path;
    if (!path.startsWith("/")) {
      throw new IllegalArgumentException("the path of a Unix socket must be absolute; " + ACCEPTED);
    }
    if (path.getBytes(StandardCharsets.UTF_8).length > MAX_SOCKET_PATH_BYTES) {
      throw new IllegalArgumentException(
          "the path of a Unix socket must not exceed " + MAX_SOCKET_PATH_BYTES + " bytes");
    }
    if (path.indexOf('\0') >= 0 || !Texts.isUnicode(path)) {
      throw new IllegalArgumentException("the path of a Unix socket must be Unicode without NUL");
    }
    return new Address(text, path, null, true);
  }

  private static Address ofNetwork(String text) {
    String address = text.startsWith(DNS) ? text.substring(DNS.length()) : text;
    int colon = address.lastIndexOf(':');
    if (colon < 1) {
      throw new IllegalArgumentException("not a host and a port; " + ACCEPTED);
    }
    String host = address.substring(0, colon);
    Matcher port = Pattern.compile("\\d{1,5}").matcher(address.substring(colon + 1));
    int number = port.matches() ? Integer.parseInt(port.group()) : 0;
    if (number < 1 || number > 65_535) {
      throw new IllegalArgumentException("the port must be a number from 1 to 65535; " + ACCEPTED);
    }
    if (host.startsWith("[") && host.endsWith("]")) {
      String bare = host.substring(1, host.length() - 1);
      if (!IPV6.matcher(bare).matches() || bare.indexOf(':') < 0) {
        throw new IllegalArgumentException("not an IPv6 address in the brackets; " + ACCEPTED);
      }
    } else if (!HOST_NAME.matcher(host).matches()) {
      throw new IllegalArgumentException("not a host name or IPv4 address before the port; " + ACCEPTED);
    }
    boolean isLocal = LOOPBACK.matcher(host).matches();
    return new Address(text, null, DNS + host.replace("%", "%25") + ":" + number, isLocal);
  }
}
