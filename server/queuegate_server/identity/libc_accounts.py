"""The user and group databases of the host, asked through the C library.

The calls are those behind the modules `pwd` and `grp` and behind `os.getgrouplist`, but
made through ctypes, for two reasons. `os.getgrouplist` keeps the interpreter lock while
it waits: one directory that hangs would stop the whole process, and ctypes gives the lock
up. And `pwd` and `grp` raise KeyError for every failure: a process that has run out of
file descriptors would hear that none of its users exist.

All functions block, and may be called from any thread.
"""

import ctypes
import errno
import os
from typing import Any, Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)

_FIRST_BUFFER: Final = 4 * 1024
_LARGEST_BUFFER: Final = 64 * 1024 * 1024
_FIRST_GROUPS: Final = 64
_MOST_GROUPS: Final = 1024 * 1024

_ABSENT: Final = frozenset({0, errno.ENOENT, errno.ESRCH})
"""What getpwnam_r and getgrgid_r say of an entry that does not exist (POSIX: 0; some: more)."""

_LEFT_BY_FAILURES: Final = frozenset(
    {
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.EIO,
        errno.EMFILE,
        errno.ENETUNREACH,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EPIPE,
        errno.ETIMEDOUT,
    }
)


class _Passwd(ctypes.Structure):
    """The members of `struct passwd` that all systems begin with, and room for the rest."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("password", ctypes.c_char_p),
        ("uid", ctypes.c_uint),
        ("gid", ctypes.c_uint),
        ("rest", ctypes.c_void_p * 8),
    )


class _Group(ctypes.Structure):
    """`struct group`, without the types of the members that are not read."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("password", ctypes.c_char_p),
        ("gid", ctypes.c_uint),
        ("members", ctypes.c_void_p),
        ("rest", ctypes.c_void_p * 4),
    )


def primary_group(user: bytes) -> int | None:
    """Return the id of the primary group of a user, None if there is no such user.

    Raises OSError if that cannot be found out.
    """
    entry = _Passwd()
    if _read(_LIBC.getpwnam_r, ctypes.c_char_p(user), entry) is None:
        return None
    return int(entry.gid)


def group_ids(user: bytes, primary: int) -> list[int]:
    """Return the ids of all groups of a user, with repetitions as they come.

    Raises OSError if the list is known to be incomplete. The C library returns what the
    sources that answered know, and has no way to say that another one failed; the error
    number that it leaves behind is the only trace.
    """
    size = _FIRST_GROUPS
    while size <= _MOST_GROUPS:
        ids = (ctypes.c_uint * size)()
        count = ctypes.c_int(size)
        ctypes.set_errno(0)
        status = _LIBC.getgrouplist(
            ctypes.c_char_p(user), ctypes.c_uint(primary), ids, ctypes.byref(count)
        )
        if status >= 0:
            left = ctypes.get_errno()
            if left in _LEFT_BY_FAILURES:
                raise OSError(left, os.strerror(left))
            return ids[: count.value]
        size = max(2 * size, count.value)
    raise OSError(errno.ENOMEM, f"more than {_MOST_GROUPS} groups")


def group_name(gid: int) -> bytes | None:
    """Return the name of a group, None if there is no such group.

    Raises OSError if that cannot be found out.
    """
    entry = _Group()
    texts = _read(_LIBC.getgrgid_r, ctypes.c_uint(gid), entry)
    return None if texts is None else bytes(entry.name or b"")


def _read(function: Any, key: Any, entry: _Passwd | _Group) -> "ctypes.Array[ctypes.c_char] | None":
    """Fill in an entry and return the buffer that its texts live in, None if there is no
    such entry. Raises OSError if nobody can say.
    """
    size = _FIRST_BUFFER
    status = errno.ERANGE
    while status == errno.ERANGE and size <= _LARGEST_BUFFER:
        buffer = ctypes.create_string_buffer(size)
        found = ctypes.c_void_p()
        status = function(
            key, ctypes.byref(entry), buffer, ctypes.c_size_t(size), ctypes.byref(found)
        )
        size *= 4
    if status == 0 and found.value is not None:
        return buffer
    if status not in _ABSENT:
        raise OSError(status, os.strerror(status))
    _make_sure_that_files_can_be_opened()
    return None


def _make_sure_that_files_can_be_opened() -> None:
    """Raise OSError if this process has no file descriptor left.

    Without one the sources that read files fail, and a later source of nsswitch.conf that
    needs none says that there is no such entry.
    """
    os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
