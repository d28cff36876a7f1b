"""Readers for the files of YARN's schedulers."""

from collections.abc import Callable, Mapping
from typing import Final

from queuegate_server.formats.diagnostics import Diagnostics
from queuegate_server.formats.format_names import CAPACITY_SCHEDULER, FAIR_SCHEDULER
from queuegate_server.formats.yarn.capacity_scheduler import read_capacity_scheduler
from queuegate_server.formats.yarn.fair_scheduler import read_fair_scheduler
from queuegate_server.formats.yarn.properties import Configuration
from queuegate_server.formats.yarn.scheduler_file import SchedulerFile

_Reader = Callable[[bytes, Diagnostics, Configuration], SchedulerFile | None]

SCHEDULERS: Final[Mapping[str, _Reader]] = {
    FAIR_SCHEDULER: read_fair_scheduler,
    CAPACITY_SCHEDULER: read_capacity_scheduler,
}
"""File readers by format name. They take the contents, the diagnostics and yarn-site.xml's
properties."""
