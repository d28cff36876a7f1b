"""`python -m queuegate_server` is `queuegate-server`."""

from queuegate_server.cli.main import main

main()
