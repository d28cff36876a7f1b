"""The users and groups of the host: whatever nsswitch.conf names."""

from collections.abc import Callable
from typing import Final

from pydantic import Field

from queuegate_server.identity import libc_accounts
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import CouldNotAsk, Found, NoSuchUser, Outcome
from queuegate_server.runtime.threads import AbandonableThreadPool, AllThreadsHang, StillRunning

_NO_SUCH_USER: Final = NoSuchUser("the host has no such user")


class NssOptions(ResolverOptions):
    """Settings of the resolver `os`."""

    threads: int = Field(
        16,
        ge=1,
        le=256,
        description="How many look-ups block at once at most; further ones wait for a thread.",
    )


class NssResolver:
    """Answers from the user and group databases of the host.

    They may ask a directory that hangs, so every look-up has a thread of its own kind:
    one that hangs holds up neither the other users nor the end of the process.
    """

    Options = NssOptions

    def __init__(
        self, options: NssOptions, look_up: Callable[[str], Outcome] | None = None
    ) -> None:
        """Take a blocking look-up to use in place of the C library's."""
        self._threads = AbandonableThreadPool(options.threads, "os-accounts")
        self._look_up = look_up or look_up_account

    async def open(self) -> None:
        """Do nothing: threads start when they are needed."""

    async def resolve(self, user: str) -> Outcome:
        """Look up one user in a thread."""
        try:
            return await self._threads.run(user, lambda: self._look_up(user))
        except StillRunning:
            return CouldNotAsk("an earlier look-up of the user still hangs")
        except AllThreadsHang:
            return CouldNotAsk("every thread for look-ups hangs")

    async def close(self) -> None:
        """End the threads that are idle; those that hang end with the process."""
        self._threads.close()


def look_up_account(user: str) -> Outcome:
    """Return all groups of a user of the host, primary group first. Blocks.

    A group without a name goes by its id, as in YuniKorn.
    """
    try:
        name = user.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _NO_SUCH_USER
    # The C library would read no further than to the NUL: another user.
    if b"\0" in name:
        return _NO_SUCH_USER
    try:
        primary = libc_accounts.primary_group(name)
        if primary is None:
            return _NO_SUCH_USER
        ids = dict.fromkeys([primary, *libc_accounts.group_ids(name, primary)])
        return Found(tuple(dict.fromkeys(map(_group_text, ids))))
    except OSError as error:
        return CouldNotAsk(f"the host's user database failed: {error.strerror}")


def _group_text(gid: int) -> str:
    name = libc_accounts.group_name(gid)
    try:
        return (name or b"").decode() or str(gid)
    except UnicodeDecodeError:  # No access list can name it.
        return str(gid)
