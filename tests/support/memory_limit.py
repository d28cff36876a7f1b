"""A limit on the memory of a running process, like a container's."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path("/sys/fs/cgroup")
_REMOVAL_SECONDS: Final = 5.0


class _Hierarchy(NamedTuple):
    """The location of the memory controller in each version of cgroups."""

    parent: Path
    settings: dict[str, str]
    """Files written before the process moves. `{}` stands for the limit."""
    events: str
    """The file that counts processes killed by the kernel."""


@contextmanager
def limited_memory(pid: int, size: int) -> Iterator[None]:
    """Put a process into a separate cgroup for the block. The kernel limits its memory.

    If the machine does not permit it, there is no limit. With cgroups version 2, memory that the
    process already has is not counted; with version 1 it is.

    Args:
        pid: The process.
        size: The limit in bytes.

    Raises:
        AssertionError: The process, or a child that it started in the meantime, needed more and was
            killed.
    """
    hierarchy = _hierarchy()
    cgroup = hierarchy.parent / f"queuegate-test-{os.getpid()}-{pid}"
    try:
        cgroup.mkdir()
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            for name, value in hierarchy.settings.items():
                (cgroup / name).write_text(value.format(size))
            (cgroup / "cgroup.procs").write_text(str(pid))
        yield
        events = (cgroup / hierarchy.events).read_text()
        assert not re.search(r"^oom_kill [1-9]", events, re.MULTILINE), f"killed: {size} bytes"
    finally:
        _remove(cgroup)


def _hierarchy() -> _Hierarchy:
    own = re.search(r"^\d+:memory:/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    if own is None:
        # A cgroup with processes, such as our own, cannot control the memory of child groups.
        return _Hierarchy(_ROOT, {"memory.max": "{}", "memory.swap.max": "0"}, "memory.events")
    settings = {
        "memory.limit_in_bytes": "{}",
        "memory.kmem.tcp.limit_in_bytes": "{}",
        # 1: anonymous memory, 2: files.
        "memory.move_charge_at_immigrate": "3",
    }
    return _Hierarchy(_ROOT / "memory" / own[1], settings, "memory.oom_control")


def _remove(cgroup: Path) -> None:
    """Move the processes of a cgroup to its parent, and remove the cgroup."""
    end = time.monotonic() + _REMOVAL_SECONDS
    while True:
        for left in (cgroup / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                (cgroup.parent / "cgroup.procs").write_text(left)
        try:
            cgroup.rmdir()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return
