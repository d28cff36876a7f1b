package io.queuegate.hadoop;

import java.io.IOException;
import java.util.List;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.security.GroupMappingServiceProvider;

/**
 * Gives Hadoop's daemons the groups of queuegate's resolvers ({@code hadoop.security.group.mapping}).
 *
 * <p>The process keeps a copy of the groups that it asked for. The server invalidates them. Hadoop's own cache
 * does not notice, except that it is emptied when a user's last group has gone.
 */
public final class QueuegateGroupsMapping implements GroupMappingServiceProvider, Configurable {
  private Configuration configuration;
  private ServerGroups groups;
  private HadoopCache cache;

  /** Creates a mapping, which Hadoop then configures. */
  public QueuegateGroupsMapping() {}

  /**
   * Connects to queuegate in the background.
   *
   * @throws IllegalArgumentException if a setting is invalid or missing; it names the key
   */
  @Override
  public void setConf(Configuration configuration) {
    this.configuration = configuration;
    if (configuration != null) {
      Settings settings = Settings.of(configuration);
      GateLink link = SharedLinks.of(settings, ClientLink::open);
      groups = new ServerGroups(link, settings.lookupTimeout);
      cache = SharedLinks.hadoopCacheOf(link, settings, configuration);
    }
  }

  @Override
  public Configuration getConf() {
    return configuration;
  }

  /**
   * Returns the groups of a user, starting with the primary group; empty if the directory knows no such
   * user.
   *
   * @throws IOException if they could not be looked up
   */
  @Override
  public List<String> getGroups(String user) throws IOException {
    List<String> found = groups.of(user);
    cache.gets(user, found);
    return found;
  }

  /** Has no effect, because the server invalidates groups. */
  @Override
  public void cacheGroupsRefresh() {}

  /** Has no effect. */
  @Override
  public void cacheGroupsAdd(List<String> groups) {}
}
