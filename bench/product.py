"""`queuegate-server` as users have it: without the packages that only the project's tests install.

structlog imports rich where it finds it, which costs a start tens of milliseconds and each process
about 3 MiB. Neither the package nor the image installs rich.
"""

import sys

sys.modules["rich"] = None  # type: ignore[assignment]  # a later import fails

from queuegate_server.cli.main import main  # noqa: E402 - after the line above

main()
