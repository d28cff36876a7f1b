"""The command line `queuegate-server`: one verb a file."""
