"""`queuegate-server source-check` with LDAP: its output for an administrator."""

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from queuegate_server.cli.policy_files import validate
from queuegate_server.cli.source_check import source_check
from tests.support.rows import rows
from tests.support.servers.free_ports import free_port
from tests.support.servers.ldap_entries import base, dn, entry, group, person
from tests.support.servers.queuegate_server import server_command
from tests.support.servers.slapd import GROUPS, PASSWORD, SERVICE, SUFFIX, Slapd, running_slapd

PLAIN = "    start_tls: false\n    allow_plaintext_bind: true\n"


def settings(
    tmp_path: Path, ca_file: Path, password_file: Path, *urls: str, more: str = ""
) -> Path:
    file = tmp_path / "queuegate.yaml"
    file.write_text(
        f"""\
resolvers:
  accounts: {{type: os}}
  corp:
    type: ldap
    urls: [{", ".join(urls)}]
    ca_file: {ca_file}
    bind_dn: {SERVICE}
    bind_password_file: {password_file}
    user_base: ou=people,dc=lab,dc=test
    group_base: ou=groups,dc=lab,dc=test
{more}"""
    )
    return file


def run(config: Path, *arguments: str) -> tuple[int, str]:
    """Run the command in this process; the first test runs it as the program that it is."""
    command = ["--config", str(config), *arguments]
    done = CliRunner(env={"LDAPNOINIT": "1"}).invoke(source_check, command)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.output


@contextlib.contextmanager
def slow_proxy(target: int, seconds: float) -> Iterator[int]:
    """Delay each answer after that to the bind."""

    def carry(source: socket.socket, sink: socket.socket, delay: float) -> None:
        with source, contextlib.suppress(OSError):
            sink.sendall(source.recv(65_536))
            while data := source.recv(65_536):
                time.sleep(delay)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", target))
                for source, sink, delay in ((near, far, 0.0), (far, near, seconds)):
                    threads.append(threading.Thread(target=carry, args=(source, sink, delay)))
                    threads[-1].start()

    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads.append(threading.Thread(target=serve))
        threads[0].start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def test_every_step_is_shown(
    tmp_path: Path, directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    config = settings(tmp_path, ca_file, password_file, directory.url, directory.tls_url)
    command = server_command("source-check", "--config", str(config), "corp", "alice")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    for step in ("resolve", "connect", "starttls", "tls", "bind", "user search", "group search"):
        assert f"ok    {step:<13}" in output, step
    assert "TLSv1.3" in output
    assert "groups (2): analytics, Ops" in output
    assert output.count("groups (2)") == 2
    assert PASSWORD not in output


def test_failed_steps_come_with_advice(
    tmp_path: Path, directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    dead = f"ldap://127.0.0.1:{free_port()}"
    config = settings(tmp_path, ca_file, password_file, dead, directory.url)
    status, output = run(config, "corp", "alice")
    assert status == 1
    assert "FAIL  connect" in output
    assert "127.0.0.1: Connection refused" in output
    assert "advice: check the host, the port and any firewalls" in output
    assert "groups (2): analytics, Ops" in output
    # Nobody knows what the other one would have said.
    assert "the servers disagree" not in output
    password_file.write_text("wrong secret")
    status, output = run(config, "corp", "alice")
    assert status == 1
    assert "FAIL  bind" in output
    assert "advice: check bind_dn and the password" in output
    assert "wrong secret" not in output


def test_unknown_user(tmp_path: Path, directory: Slapd, ca_file: Path, password_file: Path) -> None:
    config = settings(tmp_path, ca_file, password_file, directory.url)
    status, output = run(config, "corp", "ALICE")
    assert status == 1
    assert "no such user: the directory spells the name differently" in output
    assert "user_match: casefold accepts it" in output


def test_servers_that_disagree(
    tmp_path: Path, directory: Slapd, own_directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    own_directory.add(group("more", dn("bob")))
    config = settings(tmp_path, ca_file, password_file, directory.url, own_directory.url)
    status, output = run(config, "corp", "bob")
    assert status == 1
    assert "the servers disagree" in output


def test_faults_between_the_steps_come_with_advice_too(
    tmp_path: Path, directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    config = settings(
        tmp_path, ca_file, password_file, directory.url, more="    nested: in_chain\n"
    )
    status, output = run(config, "corp", "bob")
    assert status == 1
    assert "(set nested: walk)" in output


def test_starttls_at_a_port_of_ldaps(
    tmp_path: Path, directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    config = settings(tmp_path, ca_file, password_file, f"ldap://127.0.0.1:{directory.tls_port}")
    status, output = run(config, "corp", "bob")
    assert status == 1
    assert "FAIL  starttls" in output
    assert "advice: check whether the port is for ldap://" in output


def test_names_in_the_directory_cannot_steer_the_terminal(
    tmp_path: Path, own_directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    own_directory.add(group("a\u202eb", dn("carol")) + group("a\x1b[31m\nb", dn("carol")))
    config = settings(tmp_path, ca_file, password_file, own_directory.url)
    status, output = run(config, "corp", "carol")
    assert status == 0
    assert "\x1b" not in output
    assert "\u202e" not in output
    # A name with control characters is invalid.
    assert r"groups (2): level1, a\u202eb" in output
    assert "note: 1 groups have no readable name" in output


def test_wrong_settings_and_usage(tmp_path: Path, ca_file: Path, password_file: Path) -> None:
    config = settings(
        tmp_path, ca_file, password_file, "ldaps://a", more="    user_filter: (uid=x)\n"
    )
    status, output = run(config, "corp", "alice")
    assert status == 2
    assert "user_filter: is not a valid user filter" in output
    config = settings(
        tmp_path,
        ca_file,
        password_file,
        "ldaps://a",
    )
    status, output = run(config, "crop", "alice")
    assert status == 2
    assert "the settings have no resolver crop, only" in output


def test_validate_finds_errors_before_the_start(
    tmp_path: Path, ca_file: Path, password_file: Path
) -> None:
    def checked(file: Path) -> tuple[int, str]:
        done = CliRunner().invoke(validate, ["--settings", str(file)])
        return done.exit_code, done.stdout

    good = settings(tmp_path, ca_file, password_file, "ldaps://a")
    assert checked(good) == (0, "")
    bad = settings(
        tmp_path, tmp_path / "nowhere", password_file, "http://a", more="    nested: x\n"
    )
    status, output = checked(bad)
    assert status == 1
    for key in ("urls[0]", "ca_file", "nested"):
        assert f"error: resolvers.corp.{key}: " in output
    assert output.count("queuegate.yaml:") == 3


def test_what_a_server_fails_source_check_fails(
    tmp_path: Path, directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    """Each request is in time, and all of them together are not."""
    times = "    operation_timeout: 40s\n    connect_timeout: 40s\n    lookup_timeout: 300ms\n"
    with slow_proxy(directory.port, 0.2) as port:
        config = settings(
            tmp_path, ca_file, password_file, f"ldap://127.0.0.1:{port}", more=times + PLAIN
        )
        status, output = run(config, "corp", "alice")
    assert status == 1
    assert "timed out after 0.3 s (lookup_timeout)" in output
    assert "the lookup took longer than 0.3 s (lookup_timeout)" in output


def test_a_slow_request_names_its_limit(
    tmp_path: Path, directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    times = "    operation_timeout: 100ms\n    connect_timeout: 40s\n    lookup_timeout: 40s\n"
    with slow_proxy(directory.port, 5) as port:
        config = settings(
            tmp_path, ca_file, password_file, f"ldap://127.0.0.1:{port}", more=times + PLAIN
        )
        status, output = run(config, "corp", "alice")
    assert status == 1
    assert "did not answer within 0.1 s (operation_timeout)" in output


def test_validate_compares_the_limits(tmp_path: Path, ca_file: Path, password_file: Path) -> None:
    config = settings(
        tmp_path, ca_file, password_file, "ldaps://a", more="    operation_timeout: 10s\n"
    )
    for option in ("--settings", "--config"):
        done = CliRunner().invoke(validate, [option, str(config)])
        assert done.exit_code == 0
        assert "queuegate.yaml:11:24: warning: resolvers.corp.operation_timeout: " in done.output
        assert (
            "operation_timeout (10 s) is not shorter than lookup_timeout (5 s), so a lookup "
            "times out before it can fail over to another server (raise "
            "lookup_timeout, or lower this setting)" in done.output
        )


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ("none", ["repeat_after"]),
        ("syncrepl", []),
        ("dirsync", []),
    ],
)
def test_validate_names_settings_without_an_effect(
    tmp_path: Path, ca_file: Path, password_file: Path, changes: str, keys: list[str]
) -> None:
    more = f"    changes: {changes}\n    repeat_after: 1s\n"
    config = settings(tmp_path, ca_file, password_file, "ldaps://a", more=more)
    done = CliRunner().invoke(validate, ["--settings", str(config)])
    assert done.exit_code == 0
    expected = [f"{key} has no effect, because changes is {changes}" for key in keys]
    found = [line for line in done.output.splitlines() if "has no effect" in line]
    assert len(found) == len(expected)
    assert all(text in line for text, line in zip(expected, found, strict=True))


def test_a_referral_names_its_server(
    tmp_path: Path, ca: trustme.CA, ca_file: Path, password_file: Path
) -> None:
    other = "ldap://ldap2.example.com/dc=example,dc=com"
    referral = entry(
        f"ou=elsewhere,{SUFFIX}",
        ("objectClass", "referral"),
        ("objectClass", "extensibleObject"),
        ("ou", "elsewhere"),
        ("ref", other),
    )
    with running_slapd(tmp_path / "slapd", ca, base() + referral) as slapd:
        config = settings(tmp_path, ca_file, password_file, slapd.url)
        text = config.read_text().replace("ou=people,dc=lab", "ou=elsewhere,dc=lab")
        config.write_text(text)
        status, output = run(config, "corp", "alice")
    assert status == 1
    assert f"the server refers to {other}" in output
    assert "Referral (10)" in output
    assert "advice: it does not hold the base that was searched" in output


def note_of(output: str) -> str:
    (line,) = (line for line in output.splitlines() if line.startswith("  note: "))
    return line


def test_names_that_no_acl_can_list_are_quoted(
    tmp_path: Path, own_directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    own_directory.add(group("eng, prod", dn("carol")) + group("domain users", dn("carol")))
    config = settings(tmp_path, ca_file, password_file, own_directory.url)
    status, output = run(config, "corp", "carol")
    assert status == 0
    assert 'groups (3): level1, "eng, prod", domain users\n' in output
    assert 'note: no ACL can list "eng, prod": commas and spaces separate names\n' in output


@rows
def test_names_with_spaces(
    tmp_path: Path,
    own_directory: Slapd,
    ca_file: Path,
    password_file: Path,
    text: str | None,
    is_noted: bool,
) -> None:
    own_directory.add(group("domain users", dn("carol")))
    config = settings(tmp_path, ca_file, password_file, own_directory.url)
    if text is not None:
        policy = tmp_path / "policy"
        policy.write_text(text)
        config.write_text(f"policy: {{path: {policy}}}\n{config.read_text()}")
    status, output = run(config, "corp", "carol")
    assert status == 0
    note = "note: no ACL of a queues.yaml can list domain users: a space separates users from"
    assert (note in output) is is_noted


@pytest.mark.parametrize("groups_from", ["member_dn", "member_of"])
def test_memberships_outside_of_the_base(
    tmp_path: Path, directory: Slapd, ca_file: Path, password_file: Path, groups_from: str
) -> None:
    more = f"    groups_from: {groups_from}\n"
    config = settings(tmp_path, ca_file, password_file, directory.url, more=more)
    status, output = run(config, "corp", "bob")
    assert status == 0
    assert "groups (1): analytics" in output
    note = note_of(output)
    assert "1 membership is outside group_base and ignored" in note
    assert f"'cn=outside,ou=more,{SUFFIX}'" in note
    status, output = run(config, "corp", "alice")
    assert status == 0
    assert "note" not in output


def test_memberships_within_the_base_of_another_kind(
    tmp_path: Path, directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    more = f"    more_groups: [{{group_base: 'ou=more,{SUFFIX}'}}]\n"
    config = settings(tmp_path, ca_file, password_file, directory.url, more=more)
    status, output = run(config, "corp", "bob")
    assert status == 0
    assert "groups (2): analytics, outside" in output
    assert "note" not in output


def test_groups_of_one_name(
    tmp_path: Path, own_directory: Slapd, ca_file: Path, password_file: Path
) -> None:
    own_directory.add(group("analytics", dn("carol"), where=f"ou=more,{SUFFIX}"))
    more = f"    more_groups: [{{group_base: 'ou=more,{SUFFIX}'}}]\n"
    config = settings(tmp_path, ca_file, password_file, own_directory.url, more=more)
    status, output = run(config, "corp", "alice")
    assert status == 0
    assert "groups (2): analytics, Ops" in output
    assert (
        "2 groups have the name 'analytics' and count as one, such as "
        f"'cn=analytics,{GROUPS}' and 'cn=analytics,ou=more,{SUFFIX}': rename" in note_of(output)
    )
    config.write_text(f"{config.read_text()}    unique_group_names: true\n")
    status, output = run(config, "corp", "alice")
    assert status == 1
    assert (
        "lookup failed: several groups have the name 'analytics', such as "
        f"'cn=analytics,{GROUPS}' and 'cn=analytics,ou=more,{SUFFIX}' (rename one" in output
    )


def test_nobody_has_member_of(
    tmp_path: Path, ca: trustme.CA, ca_file: Path, password_file: Path
) -> None:
    """As without the overlay, or with groups from before it."""
    ldif = base() + person("alice") + group("analytics", dn("alice"))
    with running_slapd(tmp_path / "slapd", ca, "", load=ldif) as slapd:
        more = "    groups_from: member_of\n"
        config = settings(tmp_path, ca_file, password_file, slapd.url, more=more)
        status, output = run(config, "corp", "alice")
        assert status == 0
        assert "groups (0): none" in output
        assert "root DSE: read" in output
        note = note_of(output)
        assert "no entry below user_base has a value of memberOf" in note
        assert "memberof overlay" in note


@rows
def test_names_with_a_domain_part(
    tmp_path: Path, directory: Slapd, ca_file: Path, password_file: Path, user: str, part: str
) -> None:
    config = settings(tmp_path, ca_file, password_file, directory.url)
    status, output = run(config, "corp", user)
    assert status == 1
    assert "no such user" in output
    assert part in note_of(output)
