"""Has the kernel switch between our threads less often while the process is busy.

What brings a call and what answers it are different threads. The kernel lets one that is woken
interrupt the one that runs, so that on a core with no time left they take turns up to twelve
times for each call: a quarter of its processor time. Threads of the batch class (sched(7)) wait
instead until the running one has done its work. Where another process has the core they would
wait longer, so they belong to that class only while this process has most of a core itself.
"""

import asyncio
import contextlib
import gc
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_LOG = logging.getLogger("queuegate_server.runtime.batch_scheduling")
_SECONDS: Final = 0.1
_BUSY: Final = 0.7
"""From this part of a core on, the process is busy."""
_IN_ROW: Final = 3
"""It has to be so often in a row: what takes a moment only, such as to read a large file, is
not worth it, and calls must come in between."""
_CALM: Final = 0.4
"""Below this one it no longer is. The same calls take less than before in the batch class."""
_THREADS: Final = Path("/proc/self/task")


async def batch_scheduling(spent: Callable[[], float] = time.process_time) -> None:
    """Watch how busy the process is, until cancelled, by the seconds of processor time that it
    has `spent`. Does nothing where the system has no such class, or forbids it, or somebody has
    chosen another one for this process.
    """
    if not hasattr(os, "SCHED_BATCH"):
        return
    is_batch = False
    busy = 0
    try:
        while os.sched_getscheduler(0) == (os.SCHED_BATCH if is_batch else os.SCHED_OTHER):
            before, then = spent(), time.monotonic()
            await asyncio.sleep(_SECONDS)
            part = (spent() - before) / (time.monotonic() - then)
            # A thread that loads a policy is busy by itself, and must be interrupted.
            is_busy = gc.isenabled() and part >= (_CALM if is_batch else _BUSY)
            busy = busy + 1 if is_busy else 0
            is_to_be = is_busy and (is_batch or busy >= _IN_ROW)
            if is_to_be != is_batch:
                is_batch = is_to_be
                _use(os.SCHED_BATCH if is_batch else os.SCHED_OTHER)
    except OSError:
        _LOG.debug("the class of threads cannot be changed", exc_info=True)
    finally:
        if is_batch and os.sched_getscheduler(0) == os.SCHED_BATCH:
            with contextlib.suppress(OSError):
                _use(os.SCHED_OTHER)


def _use(policy: int) -> None:
    for thread in _THREADS.iterdir():
        try:
            os.sched_setscheduler(int(thread.name), policy, os.sched_param(0))
        except ProcessLookupError:  # it has ended
            continue
