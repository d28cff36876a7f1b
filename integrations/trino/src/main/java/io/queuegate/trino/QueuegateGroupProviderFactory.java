package io.queuegate.trino;

import io.trino.spi.security.GroupProvider;
import io.trino.spi.security.GroupProviderFactory;
import java.util.Map;

/** Creates the provider that {@code group-provider.name=queuegate} selects. */
public final class QueuegateGroupProviderFactory implements GroupProviderFactory {
  @Override
  public String getName() {
    return "queuegate";
  }

  /**
   * Connects in the background.
   *
   * @param config the other properties of {@code etc/group-provider.properties}
   * @throws IllegalArgumentException if a property is unknown, missing or invalid; it names the key
   */
  @Override
  public GroupProvider create(Map<String, String> config) {
    return new QueuegateGroupProvider(Settings.of(config));
  }
}
