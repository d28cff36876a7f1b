"""Errors from several sources: reported together, each with the origin of its value."""

import json
from pathlib import Path

import pytest

from queuegate_server.identity import registry
from queuegate_server.settings.load import SettingsError, load_settings
from tests.support.settings_faults import faults


@pytest.mark.parametrize(
    ("variables", "options", "fault"),
    [
        (
            {"QUEUEGATE_DRAIN__GRACE": "soon"},
            [],
            "QUEUEGATE_DRAIN__GRACE: error: drain.grace: not a duration",
        ),
        ({}, ["drain.grace=soon"], "--set drain.grace: error: not a duration"),
        (
            {},
            ["drain.z=1"],
            "--set drain.z: error: unknown key (known keys are delay, grace)",
        ),
        ({}, ["z=1"], "--set z: error: unknown key (known keys are "),
        (
            {},
            ["callers={loopback: {roles: [chek]}}"],
            (
                "--set callers: error: callers.loopback.roles[0]: must be 'check', 'read',"
                " 'admin' or 'sync'; got \"chek\""
            ),
        ),
        ({}, ["drain=[5]"], '--set drain: error: must be a section of keys and values; got ["5"]'),
        ({}, ["listen=a:x"], "--set listen: error: the port must be a number"),
        (
            {"QUEUEGATE_RESOLVERS__R__LOOKUP_TIMEOUT": "1s"},
            [],
            "QUEUEGATE_RESOLVERS__R__LOOKUP_TIMEOUT: error: resolvers.r.type: is required",
        ),
        ({"QUEUEGATE_DRAIN": "1s"}, [], "QUEUEGATE_DRAIN: error: drain: must be a section"),
        (
            {"QUEUEGATE_DRAIN": "1s", "QUEUEGATE_DRAIN__GRACE": "1s"},
            [],
            "QUEUEGATE_DRAIN__GRACE: error: drain is a single value, not a section",
        ),
    ],
)
def test_error_outside_the_file_names_its_origin(
    variables: dict[str, str], options: list[str], fault: str
) -> None:
    assert any(line.startswith(fault) for line in faults(None, "", variables, *options))


def test_error_in_an_override_is_not_located_in_the_file(file: Path) -> None:
    [fault] = faults(file, "drain: {grace: 1s, delay: 1s}", {"QUEUEGATE_DRAIN__GRACE": "x"})
    assert fault.startswith("QUEUEGATE_DRAIN__GRACE: error: drain.grace: ")


def test_error_in_the_file_is_not_attributed_to_an_override(file: Path) -> None:
    [fault] = faults(file, "drain: {grace: x}", {"QUEUEGATE_DRAIN__DELAY": "1s"})
    assert fault.startswith("queuegate.yaml:1:16: error: drain.grace: ")


def test_all_errors_are_reported_at_once(file: Path) -> None:
    text = """\
listen: [localhost]
polcy: {path: x}
resolvers:
  a: {type: nis}
  b: {type: os, max_concurrent: 0, z: 1}
partitions:
  default: {resolver: c, cache: {positive_ttl: -1}}
drain: {grace: 1s, grace: 2s}
"""
    found = faults(
        file,
        text,
        {"QUEUEGATE_LOG_LEVEL": "x", "QUEUEGATE_LIMITS__MAX_MESSAGE": "x"},
        "nonsense",
        "drain.delay=x",
    )
    assert [line.split(": error: ")[0] for line in found] == [
        "--set drain.delay",
        "--set nonsense",
        "QUEUEGATE_LIMITS__MAX_MESSAGE",
        "QUEUEGATE_LOG_LEVEL",
        "queuegate.yaml:1:10",
        "queuegate.yaml:2:1",
        "queuegate.yaml:4:13",
        "queuegate.yaml:5:33",
        "queuegate.yaml:5:36",
        "queuegate.yaml:7:23",
        "queuegate.yaml:7:48",
        "queuegate.yaml:8:20",
    ]


def test_diagnostics_do_not_quote_values(file: Path) -> None:
    text = "resolvers: {r: {type: os, bind_password: hunter2, max_concurrent: hunter2}}"
    found = "\n".join(faults(file, text, {"QUEUEGATE_LIMITS__MAX_MESSAGE": "hunter2"}))
    assert "hunter2" not in found
    assert "resolvers.r.bind_password: unknown key" in found


SECRET = "hunter2"
RESOLVERS: dict[str, dict[str, object]] = {
    "ldap": {"urls": ["ldaps://ldap.example"], "bind": "anonymous", "user_base": "dc=example"},
    "keycloak": {
        "url": "https://id.example",
        "realm": "corp",
        "client_id": "queuegate",
        "client_secret_file": "secret",
    },
    "entra": {"tenant": "corp", "client_id": "queuegate", "client_secret_file": "secret"},
    "okta": {"url": "https://id.example", "token_file": "secret"},
}
MISPLACED = (
    SECRET,
    f"{SECRET} {SECRET}",
    f"{SECRET}\n",
    f"https://user:{SECRET}@id.example",
    f"https://id.example/?{SECRET}",
    f"keycloak.{SECRET}",
    f"({SECRET}",
    [SECRET],
    {SECRET: SECRET},
)


@pytest.mark.parametrize("kind", RESOLVERS)
def test_a_secret_under_any_key_of_a_resolver_is_not_quoted(file: Path, kind: str) -> None:
    Path("secret").write_text("secret\n")
    quoted, refused = [], 0
    for key in registry.resolver_type(kind).Options.model_fields:
        more = {"user_name": "attribute"} if key == "user_attribute" else {}
        for value in MISPLACED:
            resolver = {"type": kind, **RESOLVERS[kind], **more, key: value}
            file.write_text(json.dumps({"policy": {"path": "p"}, "resolvers": {"r": resolver}}))
            try:
                load_settings(file)
            except SettingsError as error:
                refused += 1
                if SECRET in str(error):
                    quoted.append((key, value))
    assert not quoted
    assert refused > len(RESOLVERS) * len(MISPLACED)
