"""Messages of the command line use its own words: arguments, options and values as given."""

import inspect
import re
from pathlib import Path

import pytest

from queuegate import _channel, _errors, _settings
from queuegate.cli import main
from queuegate.cli.problems import problem_of
from queuegate.cli.wording import (
    argument_in_command_words,
    in_command_words,
    violations_in_command_words,
)
from queuegate.exceptions import RequestRejected, Violation
from tests.support.rows import rows

NOT_A_PATH = Violation("queue", "is not a full queue path")


@rows
def test_arguments_of_python_become_options(message: str, shown: str) -> None:
    if message.startswith("users of"):
        assert in_command_words(message) == shown
    else:
        assert argument_in_command_words(message).startswith(shown)


def test_keys_of_settings_remain() -> None:
    text = "queuegate.yaml:1:1: error: x: unknown key (known keys are ca_file, tls_server_name)"
    error = RequestRejected(text, reason="INVALID_CONFIGURATION")
    assert problem_of(error, {}).message == text


@pytest.mark.parametrize("module", [_channel, _errors, _settings])
def test_no_term_of_python_is_left_in_any_message_of_the_client(module: object) -> None:
    source = inspect.getsource(module)  # type: ignore[arg-type]
    for text in re.findall(r'"([^"\n]*(?:Tls\(|_file|server_name)[^"\n]*)"', source):
        if " " in text:
            shown = argument_in_command_words(re.sub(r"\{[^}]*\}", "…", text))
            assert not re.search(r"Tls\(|\b(?:ca|certificate|key|token)_file\b", shown), shown


@rows
def test_a_queue_that_is_no_path_is_quoted(question: dict[str, object], shown: str) -> None:
    assert violations_in_command_words([NOT_A_PATH], question).startswith(shown)


def test_a_group_is_quoted() -> None:
    violation = Violation("user.groups[1]", "has a control character")
    shown = violations_in_command_words([violation], {"groups": ("a", "b\n")})
    assert shown == "--group 'b\\n' has a control character"


@rows
def test_a_group_that_no_acl_can_list_is_refused(
    group: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["check", "sue", "root"], ["explain", "sue", "root"], ["queues", "sue"]):
        assert main([*command, "--group", group]) == 2
        message = capsys.readouterr().err
        assert f"{group!r}: {remedy}" in message
        assert "`semantics: hadoop`" in message


def test_inner_spaces_of_a_group_are_left_to_the_policy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "fair-scheduler.xml"
    file.write_text(
        "<allocations><queue name='root'><aclSubmitApps> domain users</aclSubmitApps>"
        "<aclAdministerApps> </aclAdministerApps></queue></allocations>"
    )
    files = ["--policy", str(file), "--semantics", "hadoop"]
    assert main(["check", "sue", "root", "--group", "domain users", *files]) == 0
    assert "lists the group domain users" in capsys.readouterr().out


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_token_that_others_can_read_is_a_warning(
    mode: int, warned: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret-text\n")
    token.chmod(mode)
    main(["--address", f"unix:{tmp_path}/none", "--token-file", str(token), "health"])
    errors = capsys.readouterr().err
    assert (f"other users can read it; run: chmod 600 {token}" in errors) is warned
    assert "secret-text" not in errors


def test_a_key_of_another_certificate_names_both_files_and_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = Path("tests/contract/tls")
    certificate, key = files / "client.pem", files / "server.key"
    options = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    assert main(["--address", "127.0.0.1:1", *options, "health"]) == 2
    assert (
        f"--tls-cert '{certificate}' and --tls-key '{key}' do not match" in capsys.readouterr().err
    )
