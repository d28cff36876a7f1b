package io.queuegate.hadoop;

import io.queuegate.internal.PropertyNames;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.SimpleFormatter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Passes what queuegate's client logs to Hadoop's log, with the keys of this module. */
final class ClientLog extends Handler {
  private static final String NAME = "io.queuegate";
  private static final Logger LOG = LoggerFactory.getLogger(NAME);
  // The JDK collects loggers that nothing refers to.
  private static final java.util.logging.Logger SOURCE = java.util.logging.Logger.getLogger(NAME);

  // No class of this module sends checks to the server.
  private static final String ASKS = "A gate sends every check to the server";
  private static final String DECIDES_NOT = "The gate does not decide";

  private final SimpleFormatter formatter = new SimpleFormatter();

  private ClientLog() {}

  /** Starts passing records, once in a process. */
  static synchronized void install() {
    if (SOURCE.getUseParentHandlers()) {
      SOURCE.setUseParentHandlers(false);
      SOURCE.addHandler(new ClientLog());
    }
  }

  @Override
  public void publish(LogRecord record) {
    String message = PropertyNames.in(formatter.formatMessage(record)).replace(ASKS, DECIDES_NOT);
    int level = record.getLevel().intValue();
    if (level >= Level.SEVERE.intValue()) {
      LOG.error(message, record.getThrown());
    } else if (level >= Level.WARNING.intValue()) {
      LOG.warn(message, record.getThrown());
    } else if (level >= Level.INFO.intValue()) {
      LOG.info(message, record.getThrown());
    }
  }

  @Override
  public void flush() {}

  @Override
  public void close() {}
}
