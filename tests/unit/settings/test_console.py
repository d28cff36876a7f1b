"""The settings of the console: where it may be served, and for whom."""

from pathlib import Path

import pytest

from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import Settings

TLS = "tls: {certificate_file: a, key_file: b}"
MUTUAL = "tls: {certificate_file: a, key_file: b, client_ca_file: c}"
TOKENS = "callers: {token_file: t, tokens: {ann: {roles: [read]}}}"
CERTIFICATES = "callers: {certificates: {'dns:a': {roles: [read]}}}"


def load(file: Path, *lines: str) -> Settings:
    file.write_text("\n".join(("console: {enabled: true}", *lines)))
    return load_settings(file)


@pytest.mark.parametrize(
    "lines",
    [
        ('ops: {listen: "127.0.0.1:9464"}',),
        ('ops: {listen: "localhost:9464"}',),
        ('ops: {listen: "[::1]:9464"}',),
        (f'ops: {{listen: "0.0.0.0:9464", {TLS}}}', TOKENS),
        (f'ops: {{listen: "0.0.0.0:9464", {MUTUAL}}}', CERTIFICATES),
        (f'ops: {{listen: "queuegate.example.org:9464", {TLS}}}', TOKENS),
    ],
)
def test_valid(file: Path, lines: tuple[str, ...]) -> None:
    assert load(file, *lines).console.enabled


def test_a_missing_extra_is_a_fault(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queuegate_server.settings.observability.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"pip install 'queuegate\[console\]'"):
        load(file, 'ops: {listen: "127.0.0.1:9464"}')


def test_a_port_without_the_console_needs_no_tls(file: Path) -> None:
    file.write_text('ops: {listen: "0.0.0.0:9464"}\nworkers: 2\n')
    assert not load_settings(file).console.enabled
