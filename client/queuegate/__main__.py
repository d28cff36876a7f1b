"""Entry point of `python -m queuegate`."""

import sys

from queuegate.cli import main

sys.exit(main())
