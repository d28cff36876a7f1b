"""What a machine lacks is found before the first question: by `validate`, at a start or reload."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from queuegate import Client
from tests.integration.ldap.test_serving import policy
from tests.support.eventually import eventually
from tests.support.servers.admin_port import LISTEN, get_json, ops_address
from tests.support.servers.queuegate_server import ADMIN, running_server, server_command
from tests.support.servers.slapd import PASSWORD

Machine = Callable[[str], dict[str, str]]

DRIVER = (
    "the LDAP driver is not installed (No module named 'ldap'): pip install 'queuegate[ldap]', or "
    "in a checkout pip install '.[server,ldap]'"
)
LIBRARY = (
    "the LDAP driver cannot be loaded (libldap.so.9: cannot open shared object file): install "
    "libldap and libsasl"
)
DISCOVERY = "the LDAP driver is not installed (No module named 'dns'): pip install"
KERBEROS = "bind: gssapi needs the GSSAPI module of libsasl: install it (Debian: libsasl2-modules-g"
AUTHORITIES = "this machine has no CA certificates: install them, or set ca_file"
URL = 'urls: ["ldaps://127.0.0.1:1"]'
SETTINGS = """\
policy: {{path: {policy}}}
resolvers:
  corp:
    type: ldap
    user_base: dc=a
    group_base: dc=a
    {more}
partitions:
  default: {{resolver: corp}}
"""
ASKING = "    usergroupresolver: {type: ldap}\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return the variables with which a part seems to be missing."""

    def without(part: str) -> dict[str, str]:
        if part == "gssapi":
            (tmp_path / "sasl").mkdir()
            return {"SASL_PATH": str(tmp_path / "sasl")}
        if part == "authorities":
            return {"SSL_CERT_FILE": "/nowhere", "SSL_CERT_DIR": "/nowhere"}
        name = "ldap" if part == "library" else part
        error = (
            "ImportError('libldap.so.9: cannot open shared object file')"
            if part == "library"
            else f'ModuleNotFoundError("No module named {name!r}", name={name!r})'
        )
        module = tmp_path / "modules" / name
        module.mkdir(parents=True)
        (module / "__init__.py").write_text(f"raise {error}\n")
        return {"PYTHONPATH": str(module.parent)}

    return without


def run(*arguments: str, environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        server_command(*arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("part", "more", "message"),
    [
        ("ldap", f"{URL}\n    bind: anonymous", DRIVER),
        ("library", f"{URL}\n    bind: anonymous", LIBRARY),
        ("dns", "discover: lab.test\n    bind: anonymous", DISCOVERY),
        ("gssapi", f"{URL}\n    bind: gssapi", KERBEROS),
        ("authorities", f"{URL}\n    bind: anonymous", AUTHORITIES),
    ],
    ids=["ldap", "library", "dns", "gssapi", "authorities"],
)
def test_missing(tmp_path: Path, machine: Machine, part: str, more: str, message: str) -> None:
    """With the part the settings are valid; without it every command says what is missing."""
    file = tmp_path / "queuegate.yaml"
    file.write_text(SETTINGS.format(policy=policy(tmp_path), more=more))
    config = ("--config", str(file))
    validate = ("validate", "--settings", str(file))
    assert run(*validate, environment={})[0] == 0
    environment = machine(part)
    expected = f"{file}:3:3: error: resolvers.corp: {message}"
    for command, status in (
        (validate, 1),
        (("validate", *config), 1),
        (("serve", *config, "--listen", "127.0.0.1:0"), 2),
        (("source-check", *config, "corp", "alice"), 2),
    ):
        found = run(*command, environment=environment)
        assert found[0] == status, found
        assert expected in found[1]
        assert "Traceback" not in found[1]


@pytest.mark.parametrize(
    ("more", "more_environment"),
    [
        (f"{URL}\n    bind: anonymous\n    verify_certificate: false", {}),
        ('urls: ["ldap://127.0.0.1:1"]\n    bind: anonymous\n    start_tls: false', {}),
        # OpenSSL looks certificates up in a folder when it needs them.
        (f"{URL}\n    bind: anonymous", {"SSL_CERT_DIR": "/etc"}),
    ],
)
def test_no_authorities_where_none_are_needed(
    tmp_path: Path, machine: Machine, more: str, more_environment: dict[str, str]
) -> None:
    file = tmp_path / "queuegate.yaml"
    file.write_text(SETTINGS.format(policy=policy(tmp_path), more=more))
    environment = {**machine("authorities"), **more_environment}
    assert run("validate", "--settings", str(file), environment=environment)[0] == 0


def test_a_policy_that_comes_later(tmp_path: Path, machine: Machine) -> None:
    """A policy that needs what is missing changes nothing: readiness names the resolver, and the
    log the reason, which may name accounts and files.
    """
    file = policy(tmp_path)
    before = file.read_text()
    with running_server(
        *(*LISTEN, *ADMIN, "--policy", str(file)),
        environment=machine("ldap"),
        new_interpreter=True,
    ) as it:
        address = ops_address(it)
        with Client(it.address, timeout=60) as client:
            assert client.check("analytics", "root.team").reason == "group"
            after = policy(tmp_path, ASKING)
            assert not client.reload().succeeded
            status, details = get_json(address, "/readyz")
            assert (status, details["ready"], details["policy"]["revision"]) == (200, True, 1)
            (found,) = details["resolvers"]["unusable"]
            assert found == {"partition": "default", "resolver": "ldap"}
            assert details["last_reload"]["findings"][0]["line"] == 3
            logged = it.wait_for_log("policy diagnostic")["diagnostic"]
            assert "secrets_dir /run/secrets/ldap" in logged
            assert "`partitions.default.resolver`" in logged
            # The last good policy is still served.
            assert client.check("analytics", "root.team").reason == "group"
            after.write_text(before)
            eventually(lambda: get_json(address, "/readyz")[1]["resolvers"]["unusable"], [])


def test_yunikorns_secret_without_the_driver(tmp_path: Path, machine: Machine) -> None:
    """The policy asks for `ldap`, the Secret is there, and still nothing could be asked."""
    secret = tmp_path / "secret"
    secret.mkdir()
    for key, text in {
        "Host": "127.0.0.1",
        "Port": "1636",
        "SSL": "true",
        "BaseDN": "dc=a",
        "Filter": "(uid=%s)",
        "GroupAttr": "memberOf",
        "ReturnAttr": "memberOf",
        "BindUser": "cn=svc,dc=a",
        "BindPassword": PASSWORD,
    }.items():
        (secret / key).write_text(text)
    settings: dict[str, Any] = {"policy": {"path": str(policy(tmp_path, ASKING))}}
    settings |= {"resolvers": {"corp": {"type": "ldap", "secrets_dir": str(secret)}}}
    settings |= {"partitions": {"default": {"resolver": "corp"}}}
    file = tmp_path / "queuegate.yaml"
    file.write_text(json.dumps(settings))
    assert run("validate", "--config", str(file), environment={})[0] == 0
    status, output = run("validate", "--config", str(file), environment=machine("ldap"))
    assert status == 1
    assert DRIVER in output
    assert PASSWORD not in output
