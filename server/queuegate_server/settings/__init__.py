"""The process's settings, from a file, the environment and the command line."""
