package io.queuegate;

import java.util.function.Consumer;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

/** Passes what gates log to a function, until it is closed. */
public final class LogListener extends Handler {
  private final Logger logger = Logger.getLogger("io.queuegate.Gate");
  private final Consumer<String> listener;

  public LogListener(Consumer<String> listener) {
    this.listener = listener;
    logger.addHandler(this);
  }

  @Override
  public void publish(LogRecord record) {
    listener.accept(new SimpleFormatter().formatMessage(record));
  }

  @Override
  public void flush() {}

  @Override
  public void close() {
    logger.removeHandler(this);
  }
}
