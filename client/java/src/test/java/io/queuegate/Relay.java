package io.queuegate;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.atomic.AtomicInteger;

/** Passes bytes between clients and a server, until connections are cut, which neither side notices. */
final class Relay implements AutoCloseable {
  private final ServerSocket listener;
  private final int target;
  private final AtomicInteger cuts = new AtomicInteger();

  Relay(int target) throws IOException {
    this.target = target;
    listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    start(this::accept);
  }

  int port() {
    return listener.getLocalPort();
  }

  /** Drops all further bytes of the connections that exist. */
  void cut() {
    cuts.incrementAndGet();
  }

  private static void start(Runnable work) {
    Thread thread = new Thread(work, "relay");
    thread.setDaemon(true);
    thread.start();
  }

  private void accept() {
    try {
      while (true) {
        Socket client = listener.accept();
        Socket server = new Socket(InetAddress.getLoopbackAddress(), target);
        int until = cuts.get();
        start(() -> pass(client, server, until));
        start(() -> pass(server, client, until));
      }
    } catch (IOException closed) {
      // The test has ended.
    }
  }

  private void pass(Socket from, Socket to, int until) {
    byte[] buffer = new byte[8_192];
    try (InputStream in = from.getInputStream(); OutputStream out = to.getOutputStream()) {
      for (int length = in.read(buffer); length >= 0; length = in.read(buffer)) {
        if (cuts.get() == until) {
          out.write(buffer, 0, length);
        }
      }
    } catch (IOException ended) {
      // By either side.
    }
  }

  @Override
  public void close() throws IOException {
    listener.close();
  }
}
