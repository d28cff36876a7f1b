"""The host's accounts: the same answers as Python's modules, and honest failures."""

import asyncio
import ctypes
import errno
import grp
import os
import pwd
import subprocess
import sys
import textwrap
import threading

import pytest

from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome
from queuegate_server.identity.resolvers import nss
from queuegate_server.identity.resolvers.nss import (
    NssResolver,
    look_up_account,
)
from tests.support.fakes.loop import wait_until

ABSENT_GID = 4_000_000_123


def test_accounts_are_those_of_the_host() -> None:
    for entry in pwd.getpwall():
        name = entry.pw_name.encode()
        assert nss.primary_group(name) == entry.pw_gid
        assert nss.group_ids(name, entry.pw_gid) == os.getgrouplist(entry.pw_name, entry.pw_gid)
    for group in grp.getgrall():
        assert nss.group_name(group.gr_gid) == grp.getgrgid(group.gr_gid).gr_name.encode()
    assert nss.primary_group(b"no-such-user-here") is None
    assert nss.group_name(ABSENT_GID) is None


def test_groups_of_a_user_without_an_entry_are_the_primary_group() -> None:
    assert nss.group_ids(b"no-such-user-here", ABSENT_GID) == [ABSENT_GID]


@pytest.mark.parametrize("constant", ["INITIAL_BUFFER", "INITIAL_GROUPS"])
def test_buffers_grow(constant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = look_up_account("root")
    assert isinstance(expected, KnownUser)
    monkeypatch.setattr(nss, constant, 1)
    assert look_up_account("root") == expected


def test_buffers_do_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nss, "INITIAL_BUFFER", 1)
    monkeypatch.setattr(nss, "MAX_BUFFER", 2)
    with pytest.raises(OSError, match=os.strerror(errno.ERANGE)):
        nss.primary_group(b"root")


def test_a_group_list_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_user: object, _gid: object, _ids: object, _count: object) -> int:
        return -1

    monkeypatch.setattr(nss._LIBC, "getgrouplist", endless)
    with pytest.raises(OSError, match="more than 1048576 groups"):
        nss.group_ids(b"root", 0)
    outcome = look_up_account("root")
    assert isinstance(outcome, LookupFailure)
    assert outcome.source_works


@pytest.mark.parametrize("left", [errno.ECONNREFUSED, errno.EMFILE, errno.ETIMEDOUT])
def test_a_group_list_that_lacks_a_source_is_a_failure(
    left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def partial(_user: object, _gid: object, _ids: object, count: object) -> int:
        ctypes.set_errno(left)
        return 1

    monkeypatch.setattr(nss._LIBC, "getgrouplist", partial)
    assert look_up_account("root") == LookupFailure(
        f"the host's user database failed: {os.strerror(left)}"
    )


@pytest.mark.parametrize("name", [None, b"", b"\xff\xfe"])
def test_a_group_without_a_usable_name_goes_by_its_id(
    name: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nss, "primary_group", lambda _user: 7)
    monkeypatch.setattr(nss, "group_ids", lambda _user, _gid: [8, 7, 9, 8])
    names = {7: b"seven", 8: name, 9: b"nine"}
    monkeypatch.setattr(nss, "group_name", names.__getitem__)
    assert look_up_account("sue") == KnownUser(("seven", "8", "nine"))


def test_two_groups_of_one_name_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nss, "group_ids", lambda _user, _gid: [0, 1, 2])
    monkeypatch.setattr(nss, "group_name", lambda gid: b"same" if gid else b"root")
    assert look_up_account("root") == KnownUser(("root", "same"))


@pytest.mark.parametrize("user", ["root\0", "\0root", "r\0oot", "\ud800", "root\udcff"])
def test_names_that_the_host_cannot_have(user: str) -> None:
    assert look_up_account(user) == NoSuchUser("the host has no such user")


WITHOUT_DESCRIPTORS = """
    import os, pwd, resource
    from queuegate_server.identity.resolvers.nss import look_up_account

    users = [entry.pw_name for entry in pwd.getpwall() if entry.pw_name not in ("root", "nobody")]
    users += ["no-such-user-here"]
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    outcomes = {type(look_up_account(user)).__name__ for user in users}
    for descriptor in taken:
        os.close(descriptor)
    print(sorted(outcomes), type(look_up_account(users[0])).__name__)
"""


def test_without_file_descriptors_no_user_is_reported_as_unknown() -> None:
    assert run(WITHOUT_DESCRIPTORS) == "['LookupFailure'] KnownUser"


HUNG = """
    import asyncio, threading
    from queuegate_server.identity.resolvers import nss as accounts
    from queuegate_server.identity.options import ResolverOptions
    from queuegate_server.identity.resolvers.nss import NssResolver, ResolverOptions
    from queuegate_server.identity.guarded_resolver import GuardedResolver

    list_groups, hang_for_ever = accounts._LIBC.getgrouplist, accounts._LIBC.pause

    def getgrouplist(user, *others):
        return hang_for_ever() if user.value == b"root" else list_groups(user, *others)

    accounts._LIBC.getgrouplist = getgrouplist

    async def main():
        hasty = ResolverOptions(lookup_timeout=2, max_concurrent=2)
        resolver = NssResolver(hasty)
        shared = GuardedResolver("os", resolver, hasty)
        print((await shared.resolve("root")).detail)
        print((await shared.resolve("root")).detail)
        patient = GuardedResolver("os", resolver, ResolverOptions(lookup_timeout=60))
        print(type(await patient.resolve("daemon")).__name__)
        await shared.close()

    asyncio.run(main())
    print("os-accounts-1" in [thread.name for thread in threading.enumerate()])
"""


def test_a_lookup_that_hangs_for_ever_holds_up_neither_others_nor_the_end() -> None:
    """The call hangs inside the C library, where nothing in this process can end it."""
    assert run(HUNG).splitlines() == [
        "no answer within 2 s (lookup_timeout)",
        "an earlier lookup of the user is still stuck",
        "KnownUser",
        "True",
    ]


async def test_when_all_threads_hang_lookups_fail_at_once() -> None:
    release = threading.Event()
    hanging: list[str] = []

    def look_up(user: str) -> Outcome:
        hanging.append(user)
        release.wait()
        return KnownUser(("g",))

    resolver = NssResolver(ResolverOptions(max_concurrent=2), look_up)
    for user in ("a", "b"):
        given_up = asyncio.create_task(resolver.resolve(user))
        await wait_until(lambda user=user: user in hanging)  # type: ignore[misc]
        given_up.cancel()
        await asyncio.wait([given_up])
    assert await resolver.resolve("c") == LookupFailure("all lookup threads are stuck")
    release.set()
    await wait_until(lambda: not resolver._threads._hung)
    assert await resolver.resolve("c") == KnownUser(("g",))
    await resolver.close()


async def test_a_closed_resolver_could_not_be_asked() -> None:
    options = ResolverOptions()
    shared = GuardedResolver("os", NssResolver(options), options)
    await shared.close()
    assert await shared.resolve("root") == LookupFailure("the resolver failed: RuntimeError")


async def test_lookups_block_in_their_threads_only() -> None:
    """A lookup waits for the event loop to do something: on the loop it never would."""
    proceed = threading.Event()

    def look_up(_user: str) -> Outcome:
        return KnownUser(("g",)) if proceed.wait(60) else LookupFailure("the loop was blocked")

    resolver = NssResolver(ResolverOptions(), look_up)
    asyncio.get_running_loop().call_soon(proceed.set)
    assert await resolver.resolve("sue") == KnownUser(("g",))
    await resolver.close()


def run(program: str) -> str:
    """Run a program in a process of its own that has a minute, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout.strip()
