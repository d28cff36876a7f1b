"""Looks up the host's users and groups using the C library, which queries the sources in
nsswitch.conf.

The C functions are called through ctypes instead of `pwd`, `grp` and `os.getgrouplist`, for two
reasons. `os.getgrouplist` holds the GIL while it waits, so a hanging directory would block the
whole process; ctypes releases the GIL. `pwd` and `grp` raise KeyError for every failure, so no
user would appear to exist while the process is out of file descriptors.
"""

import ctypes
import errno
import os
import pwd
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Final

from queuegate_server.identity.members import CannotListUsers, MemberListing
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome
from queuegate_server.runtime.threads import AbandonableThreadPool, StillRunning, ThreadsExhausted

_NO_SUCH_USER: Final = NoSuchUser("the host has no such user")
_LISTING: Final = ""
"""The thread pool's key for listings. Lookups use the user name instead."""

_NSSWITCH: Final = Path("/etc/nsswitch.conf")
_DATABASES: Final = frozenset({"passwd", "group", "initgroups"})
_COMPLETE: Final = frozenset({"files", "compat", "systemd", "altfiles", "db"})
"""Sources that always list all users and members. Other sources, such as SSSD, may not."""

_LIBC: Final = ctypes.CDLL(None, use_errno=True)

INITIAL_BUFFER: Final = 4 * 1024
MAX_BUFFER: Final = 64 * 1024 * 1024
INITIAL_GROUPS: Final = 64
MAX_GROUPS: Final = 1024 * 1024

_ABSENT: Final = frozenset({0, errno.ENOENT, errno.ESRCH})
"""Return codes of getpwnam_r and getgrgid_r for a missing entry. Only 0 is standard."""

_FAILURE_ERRNOS: Final = frozenset({
    errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.EIO, errno.EMFILE,
    errno.ENETUNREACH, errno.ENFILE, errno.ENOMEM, errno.EPIPE, errno.ETIMEDOUT,
})  # fmt: skip


class NssResolver:
    """Resolves users from the host's user and group databases.

    A database may hang, so lookups run in threads that can be abandoned. A hanging lookup delays
    neither other users' lookups nor the process's exit.
    """

    Options = ResolverOptions
    is_of_host = True

    def __init__(
        self, options: ResolverOptions, look_up: Callable[[str], Outcome] | None = None
    ) -> None:
        """Create the resolver. In tests, `look_up` may replace the blocking `look_up_account`."""
        self._threads = AbandonableThreadPool(options.max_concurrent, "os-accounts")
        self._look_up = look_up or look_up_account

    async def open(self) -> None:
        """Do nothing. Threads are started on demand."""

    async def resolve(self, user: str) -> Outcome:
        """Look up a user in a thread."""
        try:
            return await self._threads.run(user, lambda: self._look_up(user))
        except StillRunning:
            return LookupFailure("an earlier lookup of the user is still stuck")
        except ThreadsExhausted:
            return LookupFailure("all lookup threads are stuck")

    async def members(self, listing: MemberListing) -> None:
        """List group members in a thread."""
        groups = tuple(listing.groups)
        try:
            members, missing = await self._threads.run(_LISTING, lambda: group_members(groups))
        except StillRunning:
            listing.give_up("an earlier list of members is still stuck")
            return
        except (ThreadsExhausted, OSError) as error:
            reason = getattr(error, "strerror", None) or "all lookup threads are stuck"
            listing.give_up(f"the host's group database failed: {reason}")
            return
        for name, users in members.items():
            for user in users:
                listing.add(name, user)
            listing.done(name, missing)

    async def all_users(self, limit: int) -> Collection[str]:
        """List the names of the host's accounts in a thread. Raises CannotListUsers."""
        try:
            names = await self._threads.run(_LISTING, account_names)
        except (StillRunning, ThreadsExhausted):
            raise CannotListUsers("all lookup threads are stuck") from None
        if len(names) > limit:
            raise CannotListUsers(f"the host has more than {limit} accounts")
        return names

    async def close(self) -> None:
        """Stop the idle threads. Hanging threads stop when the process exits."""
        self._threads.close()


def look_up_account(user: str) -> Outcome:
    """Look up all of a host user's groups, primary group first. Blocks.

    A group without a name is represented by its number, as in YuniKorn.
    """
    name = _encode(user)
    try:
        primary = None if name is None else primary_group(name)
        if name is None or primary is None:
            return _NO_SUCH_USER
        ids = dict.fromkeys([primary, *group_ids(name, primary)])
        return KnownUser(tuple(dict.fromkeys(map(_group_text, ids))))
    except OSError as error:
        # A group has too many members, or the user is in too many groups.
        source_works = error.errno == errno.ERANGE
        return LookupFailure(
            f"the host's user database failed: {error.strerror}", source_works=source_works
        )


def _encode(name: str) -> bytes | None:
    """Encode a name for the C library; return None if no entry can have this name."""
    try:
        encoded = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    # The C library would truncate the name at the NUL.
    return None if b"\0" in encoded else encoded


def group_members(
    groups: Iterable[str], nsswitch: Path = _NSSWITCH
) -> tuple[dict[str, set[str]], str]:
    """Return each group's members, and why some may be missing ("" if the lists are complete).

    Blocks. Raises OSError if the database failed.
    """
    others = _other_sources(nsswitch)
    by_primary: defaultdict[int, set[str]] = defaultdict(set)
    if not others:
        # getpwall holds the GIL, so do not call it if it might wait for a directory server.
        for account in pwd.getpwall():
            by_primary[account.pw_gid].add(account.pw_name)
    members: dict[str, set[str]] = {name: set() for name in groups}
    for name, users in members.items():
        encoded = _encode(name)
        if encoded is None:
            continue
        entry = group_entry(encoded)
        if entry is not None:
            gid, names = entry
            users.update(user.decode("utf-8", "surrogateescape") for user in names)
            users.update(by_primary[gid])
        elif name.isascii() and name.isdecimal() and (gid := int(name)) < 1 << 32:
            # A group without a name is represented by its number.
            users.update(by_primary[gid] if group_name(gid) is None else ())
    return members, others and f"{others}, which might not list all members"


def account_names(nsswitch: Path = _NSSWITCH) -> list[str]:
    """Return the names of all accounts on the host. Blocks.

    Raises CannotListUsers if nsswitch.conf names a source that may not list all users.
    """
    if others := _other_sources(nsswitch):
        raise CannotListUsers(f"{others}, which might not list all users")
    return [account.pw_name for account in pwd.getpwall()]


def _other_sources(nsswitch: Path) -> str:
    """Return a clause naming the sources that may not list all users; "" if there are none."""
    try:
        lines = nsswitch.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ""  # glibc then defaults to `files`.
    sources: set[str] = set()
    for line in lines:
        database, _, rest = line.partition("#")[0].partition(":")
        if database.strip() in _DATABASES:
            # Strip actions such as [NOTFOUND=return].
            plain = "".join(part.rpartition("]")[2] for part in rest.split("["))
            sources |= set(plain.split())
    others = ", ".join(sorted(sources - _COMPLETE))
    return others and f"{nsswitch.name} also uses {others}"


def _group_text(gid: int) -> str:
    name = group_name(gid)
    try:
        return (name or b"").decode() or str(gid)
    except UnicodeDecodeError:  # An ACL cannot contain such a name.
        return str(gid)


class _Passwd(ctypes.Structure):
    """The `struct passwd` fields common to all systems, with space for any additional fields."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("password", ctypes.c_char_p),
        ("uid", ctypes.c_uint),
        ("gid", ctypes.c_uint),
        ("rest", ctypes.c_void_p * 8),
    )


class _Group(ctypes.Structure):
    """The `struct group` fields common to all systems, with space for any additional fields."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("password", ctypes.c_char_p),
        ("gid", ctypes.c_uint),
        ("members", ctypes.c_void_p),
        ("rest", ctypes.c_void_p * 4),
    )


def primary_group(user: bytes) -> int | None:
    """Return a user's primary gid; None if there is no such user. Blocks. Raises OSError."""
    entry = _Passwd()
    if _read(_LIBC.getpwnam_r, ctypes.c_char_p(user), entry) is None:
        return None
    return int(entry.gid)


def group_ids(user: bytes, primary: int) -> list[int]:
    """Return the ids of all of a user's groups, possibly with duplicates. Blocks.

    Raises:
        OSError: A source failed, or the user has too many groups. If a source fails, the C library
            still returns the other sources' groups; only errno indicates the failure.
    """
    size = INITIAL_GROUPS
    while size <= MAX_GROUPS:
        ids = (ctypes.c_uint * size)()
        count = ctypes.c_int(size)
        ctypes.set_errno(0)
        status = _LIBC.getgrouplist(
            ctypes.c_char_p(user), ctypes.c_uint(primary), ids, ctypes.byref(count)
        )
        if status >= 0:
            error = ctypes.get_errno()
            if error in _FAILURE_ERRNOS:
                raise OSError(error, os.strerror(error))
            return ids[: count.value]
        size = max(2 * size, count.value)
    raise OSError(errno.ERANGE, f"more than {MAX_GROUPS} groups")


def group_name(gid: int) -> bytes | None:
    """Return a group's name; None if there is no such group. Blocks. Raises OSError."""
    entry = _Group()
    buffer = _read(_LIBC.getgrgid_r, ctypes.c_uint(gid), entry)
    return None if buffer is None else bytes(entry.name or b"")


def group_entry(name: bytes) -> tuple[int, list[bytes]] | None:
    """Return the gid and members in a group's entry; None if there is no such group. Blocks.

    Raises OSError.
    """
    entry = _Group()
    # The buffer owns the strings, so it must stay alive until they are copied.
    buffer = _read(_LIBC.getgrnam_r, ctypes.c_char_p(name), entry)
    if buffer is None:
        return None
    listed = ctypes.cast(entry.members, ctypes.POINTER(ctypes.c_char_p))
    users: list[bytes] = []
    while (user := listed[len(users)]) is not None:
        users.append(user)
    return int(entry.gid), users


def _read(function: Any, key: Any, entry: _Passwd | _Group) -> "ctypes.Array[ctypes.c_char] | None":
    """Fill in `entry`. Return the buffer that owns its strings; None if there is no such entry.

    Raises OSError.
    """
    size = INITIAL_BUFFER
    status = errno.ERANGE
    while status == errno.ERANGE and size <= MAX_BUFFER:
        buffer = ctypes.create_string_buffer(size)
        result = ctypes.c_void_p()
        status = function(
            key, ctypes.byref(entry), buffer, ctypes.c_size_t(size), ctypes.byref(result)
        )
        size *= 4
    if status == 0 and result.value is not None:
        return buffer
    if status not in _ABSENT:
        raise OSError(status, os.strerror(status))
    _ensure_files_can_be_opened()
    return None


def _ensure_files_can_be_opened() -> None:
    """Raise OSError if this process has run out of file descriptors.

    An existing entry would then appear to be missing, because sources that read files fail, and a
    later source in nsswitch.conf that needs no files reports that there is no such entry.
    """
    os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
