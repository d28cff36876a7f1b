"""Makes `python -m queuegate_server` equivalent to `queuegate-server`."""

from queuegate_server.cli.main import main

main()
