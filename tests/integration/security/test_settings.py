"""Settings of listeners and callers: accepted ones, and messages for the others."""

from pathlib import Path

import pytest

from queuegate_server.settings.load import SettingsError, load_settings


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("listen: [a: b]", "1:10: error: listen[0].a: unknown key (known keys are address, group"),
        ("listen: {a: b}", "1:10: error: listen.a: unknown key (known keys are address, group"),
        ("listen: [[a]]", "1:10: error: listen[0]: must be a section of keys and values"),
        ("listen: ['[::]:1']", "1:10: error: listen[0]: [::]:1 can be reached from other machines"),
        (
            "listen: [{address: 'unix:/x', insecure: true}]",
            "1:10: error: listen[0]: tls and insecure do not apply to a Unix socket",
        ),
        (
            "listen: [{address: 'localhost:1', mode: 0600}]",
            "1:10: error: listen[0]: mode, owner and group apply to a Unix socket",
        ),
        (
            "listen: [{address: 'localhost:1', tls: {certificate_file: a}}]",
            "listen[0].tls.key_file: is required",
        ),
        (
            "callers: {certificates: {alice: {roles: check}}}",
            "callers.certificates.alice: is not a certificate name",
        ),
        (
            "callers: {certificates: {'spiffe://example.org/*': {}}}",
            "callers.certificates.spiffe://example.org/*: wildcards are not supported",
        ),
        (
            "callers:\n  certificates:\n    dns:*.example.org: {}\n    cn:.*: {}\n",
            (
                ":3:5: error: callers.certificates.dns:*.example.org: wildcards are not supported,"
                " because names are compared exactly: list each name in full\n"
            ),
        ),
        (
            "callers:\n  certificates:\n    dns:*.example.org: {}\n    cn:.*: {}\n",
            ":4:5: error: callers.certificates.cn:.*: wildcards are not supported",
        ),
        *(
            (f"callers: {{certificates: {{'{name}': {{}}}}}}", f"certificates.{name}: {fault}")
            for name, fault in (
                ("dns:.example.org", "wildcards are not supported"),
                ("subject:CN=*,O=Example", "wildcards are not supported"),
                ("dns:https://example.org", "is not a DNS name"),
                ("dns:example.org:443", "is not a DNS name"),
                ("dns:example.org.", "is not a DNS name"),
                ("uri:example.org", "is not a URI: write it with its scheme"),
                ("subject:/CN=ci/O=Example", "is not an RFC 2253 subject"),
                ("subject:CN = ci", "is not an RFC 2253 subject"),
                ("subject:CN=ci, O=Example", "is not an RFC 2253 subject"),
                ("subject:" + "a=\\\\,b," * 30 + " c", "is not an RFC 2253 subject"),
            )
        ),
        (
            "callers: {certificates: {'cn:a': {}}}",
            (
                "1:11: error: callers.certificates: callers cannot present certificates: set"
                " tls.client_ca_file for an address of listen, or remove the certificates"
            ),
        ),
        (
            (
                "callers: {certificates: {'cn:a': {}}}\nops: {listen: '127.0.0.1:1', tls:"
                " {certificate_file: c, key_file: k, client_ca_file: a}}"
            ),
            "1:11: error: callers.certificates: callers cannot present certificates",
        ),
        ("policy: {path: a}\npolicies: [{path: b}]", ":2:1: error: policies: set either policy"),
        ("workers: 2\nlisten: 'unix:/x'", ":1:10: error: workers: several workers cannot listen"),
        (
            "console: {enabled: true}",
            ":1:20: error: console.enabled: requires ops.listen",
        ),
        (
            "callers: {certificates: {'spiffe://example.org': {}}}",
            "callers.certificates.spiffe://example.org: is not a SPIFFE ID: write",
        ),
        (
            "callers: {certificates: {'dns:größe': {}}}",
            "callers.certificates.dns:größe: must be ASCII, as in the certificate",
        ),
        (
            "callers: {certificates: {'cn: alice': {}}}",
            "callers.certificates.cn: alice: is not a certificate name",
        ),
        ("callers: {token_file: t, tokens: {a b: {}}}", "a b: must match the pattern ^[A-Za-z0-9]"),
        (
            "callers: {certificates: {'dns:a': {}, 'dns:A': {}}}",
            "callers.certificates: the certificate dns:a is listed twice",
        ),
        (
            "callers: {loopback: {roles: root}}",
            "callers.loopback.roles: must be 'check', 'read', 'admin' or 'sync'",
        ),
        ("callers: {tokens: {ci: {}}}", "callers: tokens requires token_file"),
        ("callers: {unix: {role: check}}", "callers.unix.role: unknown key (did you mean roles?)"),
        ("limits: {connections: {most: 0}}", "limits.connections.most: must be at least 1"),
    ],
)
def test_a_fault_names_its_place_and_the_remedy(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "queuegate.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(file)
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    "listener",
    [
        "localhost:1",
        "127.0.0.1:1",
        "'[::1]:1'",
        "unix:/run/q.sock",
        "{address: '0.0.0.0:1', insecure: true}",
        "{address: '0.0.0.0:1', tls: {certificate_file: a, key_file: b}}",
        "{address: 'localhost:1', tls: {certificate_file: a, key_file: b, client_ca_file: c}}",
        "{address: 'unix:/run/q.sock', mode: 0600, owner: 0, group: daemon}",
    ],
)
def test_listeners_that_are_accepted(tmp_path: Path, listener: str) -> None:
    file = tmp_path / "queuegate.yaml"
    file.write_text(f"listen: [{listener}]")
    assert len(load_settings(file).listen) == 1


def test_a_section_of_callers_keeps_what_it_does_not_name() -> None:
    settings = load_settings(None, {}, ["callers.loopback.roles=check,read,admin"])
    assert settings.callers.loopback.assert_groups
    assert settings.callers.unix.roles == ("check", "read", "sync")


def test_variables_of_the_client_are_no_settings() -> None:
    names = ("ADDRESS", "CA_FILE", "CERTIFICATE_FILE", "KEY_FILE", "SERVER_NAME", "TOKEN_FILE")
    load_settings(None, {f"QUEUEGATE_{name}": "x" for name in names})
