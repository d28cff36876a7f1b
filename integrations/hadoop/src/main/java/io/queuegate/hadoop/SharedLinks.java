package io.queuegate.hadoop;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonConfigurationKeysPublic;
import org.apache.hadoop.security.Groups;
import org.apache.hadoop.util.ShutdownHookManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The connections of this process, one for all users of equal settings, with their state. */
final class SharedLinks {
  /** Below that of the ResourceManager's hook (30), so that the gate decides until YARN has stopped. */
  private static final int SHUTDOWN_PRIORITY = 20;

  private static final Logger LOG = LoggerFactory.getLogger(SharedLinks.class);
  private static final Map<Settings, GateLink> LINKS = new HashMap<>();
  private static final Map<GateLink, HadoopCache> CACHES = new HashMap<>();

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

  /** Returns the object that empties Hadoop's cache of the groups that come from a connection. */
  static synchronized HadoopCache hadoopCacheOf(GateLink link, Settings settings, Configuration configuration) {
    return CACHES.computeIfAbsent(link, missing -> {
      ScheduledThreadPoolExecutor thread = new ScheduledThreadPoolExecutor(1, work -> {
        Thread made = new Thread(work, "queuegate-hadoop-cache");
        made.setDaemon(true);
        return made;
      });
      thread.setKeepAliveTime(1, TimeUnit.MINUTES);
      thread.allowCoreThreadTimeOut(true);
      long cacheSeconds = configuration.getLong(CommonConfigurationKeysPublic.HADOOP_SECURITY_GROUPS_CACHE_SECS,
        CommonConfigurationKeysPublic.HADOOP_SECURITY_GROUPS_CACHE_SECS_DEFAULT);
      return new HadoopCache(link, settings.lookupTimeout.toNanos(), cacheSeconds,
        () -> Groups.getUserToGroupsMappingService(configuration).refresh(),
        (millis, work) -> thread.schedule(work, millis, TimeUnit.MILLISECONDS), System::nanoTime);
    });
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
    CACHES.clear();
  }
}
