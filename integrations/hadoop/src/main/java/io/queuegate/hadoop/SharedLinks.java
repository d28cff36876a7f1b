package io.queuegate.hadoop;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.hadoop.util.ShutdownHookManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The connections of this process: one for all users of equal settings. */
final class SharedLinks {
  /** Below that of the ResourceManager's hook (30), so that the gate decides until YARN has stopped. */
  private static final int SHUTDOWN_PRIORITY = 20;

  private static final Logger LOG = LoggerFactory.getLogger(SharedLinks.class);
  private static final Map<Settings, GateLink> LINKS = new HashMap<>();

  private SharedLinks() {}

  /** Returns the connection with these settings, which opens in the background. */
  static synchronized GateLink of(Settings settings, Function<Settings, GateLink> open) {
    GateLink link = LINKS.get(settings);
    if (link == null) {
      link = open.apply(settings);
      if (LINKS.isEmpty()) {
        ShutdownHookManager.get().addShutdownHook(SharedLinks::closeAll, SHUTDOWN_PRIORITY);
      }
      LINKS.put(settings, link);
    }
    return link;
  }

  private static synchronized void closeAll() {
    for (GateLink link : LINKS.values()) {
      try {
        link.close();
      } catch (RuntimeException error) { // the others are closed all the same
        LOG.warn("Cannot close a connection to queuegate.", error);
      }
    }
    LINKS.clear();
  }
}
