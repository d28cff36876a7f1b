"""Row 32 of the failure matrix: shutdown, and what lookups leave behind."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.ldap.conftest import Build
from tests.integration.ldap.lookups import BOB
from tests.support.fakes.loop import wait_until
from tests.support.servers.slapd import Slapd


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


PROGRAM = """
import asyncio, sys
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver

async def main():
    options = LdapOptions.model_validate_json(sys.stdin.read())
    resolver = LdapResolver(options)
    await resolver.open()
    tasks = [asyncio.create_task(resolver.resolve(f"u{n}")) for n in range(20)]
    await asyncio.sleep(0.3)
    await resolver.close()
    print(sorted({type(outcome).__name__ for outcome in await asyncio.gather(*tasks)}))

asyncio.run(main())
"""


@pytest.mark.parametrize("scheme", ["ldap", "ldaps"])
async def test_row_32_the_process_ends_while_a_server_hangs(
    options: Any, own_directory: Slapd, scheme: str
) -> None:
    url = own_directory.url if scheme == "ldap" else own_directory.tls_url
    given = options(url, operation_timeout=60, connect_timeout=60, lookup_timeout=60)
    own_directory.freeze()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(50):  # the time limits above are 60 s
        output, _ = await process.communicate(given.model_dump_json(exclude_defaults=True).encode())
    assert output.decode().strip() == "['LookupFailure']"
    assert process.returncode == 0


async def test_cancelled_lookups_leave_nothing_behind(resolver: Build, directory: Slapd) -> None:
    opened = await resolver(directory)
    assert await opened.resolve("bob") == BOB
    before = descriptors()
    for _ in range(20):
        tasks = [asyncio.create_task(opened.resolve("alice")) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks[::2])
    assert opened.pool
    connection = await opened.pool.servers[0].connection()
    assert connection.in_flight == 0
    assert connection.quiet.is_set()
    assert await opened.resolve("bob") == BOB
    # Connections of earlier tests may close meanwhile: a lower count is not a leak.
    await wait_until(lambda: descriptors() <= before)


async def test_opening_and_closing_loses_no_descriptor(resolver: Build, directory: Slapd) -> None:
    before = descriptors()
    for _ in range(20):
        opened = await resolver(directory)
        assert await opened.resolve("bob") == BOB
        await opened.close()
    # The last sockets close with the next turns of the loop.
    await wait_until(lambda: descriptors() <= before + 1)
