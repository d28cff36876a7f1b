"""One server process: put together, started, reloaded and stopped."""
