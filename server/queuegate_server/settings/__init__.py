"""The settings of the process, from a file, the environment and the command line."""
