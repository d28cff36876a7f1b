"""`python -m queuegate` is `queuegate`."""

import sys

from queuegate.cli import main

sys.exit(main())
