"""A bound on the memory of a running process, as a container has it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_V1: tuple[str, ...] = ("memory.limit_in_bytes",)
_V2: tuple[str, ...] = ("memory.swap.max", "memory.max")


@contextmanager
def limited_memory(pid: int, size: int) -> Iterator[bool]:
    """Put a process into a cgroup of its own, whose memory the kernel bounds, during the block.

    If the process and its children need more, the kernel kills one of them.

    Args:
        pid: The process.
        size: The bound in bytes.

    Yields:
        Whether this machine lets us make such a cgroup.
    """
    cgroups = Path("/proc/self/cgroup").read_text()
    if found := re.search(r"^\d+:memory:(.*)$", cgroups, re.MULTILINE):
        own, names = _ROOT / "memory" / found[1].lstrip("/"), _V1
    elif found := re.search(r"^0::(.*)$", cgroups, re.MULTILINE):
        own, names = _ROOT / found[1].lstrip("/"), _V2
    else:
        yield False
        return
    made = own / f"queuegate-test-{pid}"
    try:
        made.mkdir()
    except OSError:
        yield False
        return
    try:
        yield _limit(made, names, pid, size)
    finally:
        for left in (made / "cgroup.procs").read_text().split():
            (own / "cgroup.procs").write_text(left)
        made.rmdir()


def _limit(made: Path, names: tuple[str, ...], pid: int, size: int) -> bool:
    try:
        # Files that cannot be made are missing where the memory of cgroups is not controlled.
        (made / names[-1]).write_text(str(size))
        for name in names[:-1]:
            (made / name).write_text("0")
        (made / "cgroup.procs").write_text(str(pid))
    except OSError:
        return False
    return True
