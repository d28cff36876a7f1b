"""Rows 13 and 14 of the failure matrix: passwords, which must not leak."""

import asyncio
import itertools
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from click.testing import CliRunner
from pydantic import ValidationError

from queuegate import Client, QueuegateError, Retry
from queuegate_server.cli.source_check import source_check
from queuegate_server.identity.resolver import LookupFailure
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver
from tests.integration.ldap.conftest import Build
from tests.integration.ldap.lookups import BOB, until_found
from tests.support.fakes.ldap_server import Answer, fake_directory
from tests.support.resolvers import lookup_failure
from tests.support.servers import ldap_entries as entries
from tests.support.servers import with_constants
from tests.support.servers.admin_port import all_pages, ops_address
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.slapd import (
    GROUPS,
    PASSWORD,
    PEOPLE,
    SERVICE,
    SUFFIX,
    Slapd,
    running_slapd,
)

WRONG = "wr0ng-secret"


async def test_row_13_wrong_password_is_tried_once(
    resolver: Build, directory: Slapd, password_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    password_file.write_text(WRONG)
    opened = await resolver(directory)
    for _ in range(20):
        failure = await lookup_failure(opened, "bob")
        assert "rejected the credentials" in failure
        assert "bind_password_file" in failure
        await asyncio.sleep(0.02)
    assert opened.statistics.steps[directory.url, "bind"].failed == 1
    # The rotated secret is used long before `REJECTED_SECONDS` is over.
    password_file.write_text(PASSWORD)
    await until_found(opened)
    for secret in (WRONG, PASSWORD):
        assert secret not in caplog.text


async def test_row_13_password_rotated_while_connected(
    resolver: Build, own_directory: Slapd, password_file: Path
) -> None:
    opened = await resolver(own_directory)
    assert await opened.resolve("bob") == BOB
    own_directory.modify(
        f"dn: {SERVICE}\nchangetype: modify\nreplace: userPassword\nuserPassword: next\n"
    )
    password_file.write_text("next\n")
    own_directory.kill()
    own_directory.start()
    await until_found(opened)


@pytest.mark.parametrize("reset", [False, True])
async def test_row_13_expired_password(
    options: Callable[..., LdapOptions], ca: trustme.CA, tmp_path: Path, *, reset: bool
) -> None:
    policy = entries.entry(
        f"cn=policy,{SUFFIX}",
        ("objectClass", "organizationalRole"),
        ("objectClass", "pwdPolicy"),
        ("cn", "policy"),
        ("pwdAttribute", "userPassword"),
        ("pwdMaxAge", "0" if reset else "1"),
        ("pwdMustChange", "TRUE" if reset else "FALSE"),
    )
    database = f"ppolicy_default cn=policy,{SUFFIX}"
    with running_slapd(
        tmp_path / "expiring", ca, entries.base() + policy + entries.person("bob"),
        more_database=database,
    ) as slapd:  # fmt: skip
        # Passwords of before the policy have no age; this one gets one.
        slapd.modify(
            f"dn: {SERVICE}\nchangetype: modify\nreplace: userPassword\nuserPassword: {PASSWORD}\n"
        )
        if reset:
            slapd.modify(f"dn: {SERVICE}\nchangetype: modify\nreplace: pwdReset\npwdReset: TRUE\n")
        else:
            await asyncio.sleep(2.1)
        resolver = LdapResolver(options(slapd))
        await resolver.open()
        outcome = await resolver.resolve("bob")
        await resolver.close()
    # After a reset the server takes the password and then refuses every search.
    assert isinstance(outcome, LookupFailure)
    if reset:
        assert "its password has expired" in outcome.detail
    else:
        assert "rejected the credentials" in outcome.detail


@pytest.mark.parametrize("content", ["", "\n", "  \n", "a\0b"])
def test_row_14_empty_password_is_refused_at_the_start(
    options: Callable[..., LdapOptions], password_file: Path, content: str
) -> None:
    password_file.write_text(content)
    with pytest.raises(ValidationError, match=r"is empty|contains no password"):
        options("ldaps://127.0.0.1:1")


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
async def test_row_14_trailing_newline_is_stripped(
    resolver: Build, directory: Slapd, password_file: Path, end: str
) -> None:
    password_file.write_bytes(f"{PASSWORD}{end}".encode())
    assert await (await resolver(directory)).resolve("bob") == BOB


async def test_row_14_password_emptied_later_makes_no_anonymous_bind(
    resolver: Build, own_directory: Slapd, password_file: Path
) -> None:
    opened = await resolver(own_directory)
    assert await opened.resolve("bob") == BOB
    password_file.write_text("\n")
    own_directory.kill()
    own_directory.start()
    async with asyncio.timeout(60):
        while True:
            failure = await lookup_failure(opened, "bob")
            if "contains no password" in failure:
                return
            await asyncio.sleep(0.02)


async def test_row_14_password_file_that_hangs_is_a_failure(
    resolver: Build, directory: Slapd, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def hang(options: LdapOptions) -> bytes:
        answers.wait()
        return b""

    opened = await resolver(directory, connect_timeout=0.4)
    monkeypatch.setattr(LdapOptions, "password", hang)
    try:
        async with asyncio.timeout(60):
            outcome = await opened.resolve("bob")
    finally:
        answers.set()
    assert isinstance(outcome, LookupFailure)
    assert "reading the password file is stuck" in outcome.detail


async def test_anonymous_bind_must_be_configured(resolver: Build, directory: Slapd) -> None:
    nobody: dict[str, Any] = {"bind_dn": None, "bind_password_file": None}
    with pytest.raises(ValidationError, match="set bind: anonymous"):
        await resolver(directory, **nobody)
    outcome = await (await resolver(directory, **nobody, bind="anonymous")).resolve("bob")
    # This directory shows nothing to nobody: not to be read as a missing user.
    assert isinstance(outcome, LookupFailure)


async def test_password_never_travels_in_the_clear_unless_allowed(
    options: Callable[..., LdapOptions],
) -> None:
    with pytest.raises(ValidationError, match="without encryption"):
        options("ldap://127.0.0.1:1", start_tls=False)
    with pytest.raises(ValidationError, match="without encryption"):
        options("x", urls=["ldaps://a:1", "ldap://b:1"], start_tls=False)
    assert not options("ldap://127.0.0.1:1", start_tls=False, allow_plaintext_bind=True).start_tls


async def test_a_password_that_every_account_may_read_is_warned_of(
    resolver: Build, directory: Slapd, password_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for mode, warned in ((0o640, False), (0o644, True)):
        password_file.chmod(mode)
        caplog.clear()
        await resolver(directory)
        files = [record.__dict__.get("file") for record in caplog.records]
        assert (str(password_file) in files) == warned


REPEATS: dict[int, Callable[[str], str]] = {
    1: lambda password: password,
    10: lambda password: f"Referral:\nldap://{password}.example.com/{password}",
    49: lambda password: f"80090308: data 999, {password}",
    53: lambda password: f"{'x' * 195}{password}",  # longer than what is quoted
    80: lambda password: f"{password} and {password}",
}
"""What a server may say about a bind, by the result code."""


async def test_a_password_that_the_server_repeats(password_file: Path, tmp_path: Path) -> None:
    """It appears in no log, error, metric or page."""
    config = {
        "policy": {"path": str(tmp_path / "queues.yaml")},
        "partitions": {"default": {"resolver": "corp", "cache": {"failure_ttl": "1ms"}}},
        "callers": {"loopback": {"roles": ["check", "read", "admin", "sync"]}},
        "audit": {"path": str(tmp_path / "audit.log")},
        "ops": {"listen": "127.0.0.1:0"},
        "console": {"enabled": True},
        "log": {"level": "debug"},
    }
    (tmp_path / "queues.yaml").write_text(
        "partitions: [{name: default, queues: [{name: root, submitacl: ' team'}]}]"
    )

    async with fake_directory(lambda _: Answer()) as fake:
        fake.bind_code = 49
        corp = {
            "type": "ldap",
            "urls": [fake.url],
            "bind_dn": SERVICE,
            "bind_password_file": str(password_file),
            "user_base": PEOPLE,
            "group_base": GROUPS,
            "start_tls": False,
            "allow_plaintext_bind": True,
        }
        file = tmp_path / "queuegate.yaml"
        file.write_text(yaml.safe_dump({**config, "resolvers": {"corp": corp}}))

        pool = "identity.resolvers.ldap.pool"
        pauses = dict.fromkeys((f"{pool}.REJECTED_SECONDS", f"{pool}.RETRY_SECONDS"), 0.05)
        hasty = with_constants.environment({**with_constants.NEVER_PAUSED, **pauses})

        def ask() -> list[str]:
            shown = []
            with (
                running_server("--config", str(file), environment=hasty) as server,
                Client(server.address, retry=Retry(attempts=1)) as client,
            ):
                for code, repeat in REPEATS.items():
                    fake.bind_code, fake.bind_text = code, repeat(PASSWORD)
                    before = fake.binds
                    for number in itertools.count():
                        with pytest.raises(QueuegateError) as caught:
                            client.check(f"user{code}-{number}", "root")
                        shown.append(str(caught.value))
                        if fake.binds > before:
                            break
                shown.append(all_pages(ops_address(server), "default"))
            done = CliRunner().invoke(source_check, ["--config", str(file), "corp", "bob"])
            assert done.exit_code == 1
            return [
                *shown,
                done.output,
                json.dumps(server.logs),
                (tmp_path / "audit.log").read_text(),
            ]

        shown = await asyncio.to_thread(ask)
    assert set(fake.passwords) == {PASSWORD.encode()}
    assert [text for text in shown if "…" in text or "\\u2026" in text]
    assert not [text for text in shown if PASSWORD[:5] in text]


async def test_password_appears_in_no_log_and_no_repr(
    resolver: Build, directory: Slapd, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    opened = await resolver(directory)
    await opened.resolve("bob")
    seen = [repr(opened._options), str(opened._options), opened._options.model_dump_json()]
    seen += [repr(opened.statistics), repr(vars(opened)), caplog.text]
    assert opened.pool
    seen += [repr(vars(opened.pool)), repr(vars(opened.pool.connector))]
    assert not any(PASSWORD in text for text in seen)
