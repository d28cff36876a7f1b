package io.queuegate.trino;

import io.trino.spi.Plugin;
import io.trino.spi.security.GroupProviderFactory;
import java.util.List;

/** A plug-in of Trino that provides the groups of queuegate's resolvers. */
public final class QueuegatePlugin implements Plugin {
  /** Creates the plug-in, as Trino does. */
  public QueuegatePlugin() {}

  @Override
  public Iterable<GroupProviderFactory> getGroupProviderFactories() {
    return List.of(new QueuegateGroupProviderFactory());
  }
}
