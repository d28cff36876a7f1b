"""One server process: how it is composed, started, reloaded and stopped."""
