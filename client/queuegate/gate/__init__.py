"""Gates, which decide in the caller's process: `queuegate.Gate` and `queuegate.aio.Gate`."""
