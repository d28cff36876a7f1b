"""`queuegate-server prove`: its output, and its exit status."""

import csv
import gzip
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queuegate.cli import main as queuegate
from queuegate_server.cli.main import command_group

POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        adminacl: " platform"
        queues:
          - name: ml
            submitacl: " ml"
          - name: open
            submitacl: "*"
"""
REFUTED = "only group:ml may submit root.ml"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("queues.yaml").write_text(POLICY)


def claims(*texts: str, facts: tuple[str, ...] = ()) -> None:
    Path("claims.yaml").write_text(json.dumps({"facts": facts, "claims": texts}))


def prove(*options: str, policy: str = "queues.yaml") -> Result:
    return CliRunner().invoke(command_group(), ["prove", *options, policy, "claims.yaml"])


def test_the_command_about_standard_input() -> None:
    claims(REFUTED)
    done = CliRunner().invoke(command_group(), ["prove", "-", "claims.yaml"], input=POLICY)
    command = "queuegate check --policy /dev/stdin somebody root.ml --group platform"
    assert f"  $ {command}" in done.stdout.splitlines()
    assert "  <stdin>:5:19: " in done.stdout
    with Path("queues.yaml").open() as file:
        words = [str(Path(sys.executable).with_name("queuegate")), *shlex.split(command)[1:]]
        assert subprocess.run(words, stdin=file, check=False).returncode == 0


def run_printed(done: Result, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Run the commands that `prove` printed, as a shell reads them; return their answers."""
    answers = []
    for line in done.stdout.splitlines():
        if not line.startswith("  $ "):
            continue
        assert line.isprintable()
        words = line.removeprefix("  $ queuegate ")
        script = f"printf '%s\\0' {words}"
        split = subprocess.run(
            ["/bin/sh", "-c", script], check=True, capture_output=True, text=True
        )
        capsys.readouterr()
        status = queuegate(split.stdout.split("\0")[:-1])
        output = capsys.readouterr()
        assert output.err == ""
        assert status in {0, 1}
        answers.append(output.out)
    return answers


NAMES = [
    *("CORP\\jdoe", "auth0|62f", "ann b", "-ann", "--help", "o'brien", 'a"b', "$HOME", "`id`", "*"),
    *("a;b", "9x", "x#", "~x", "ann\u00a0b", "ann\u200b", "100%", "ann\\n", "Zoë", "ann"),
]


@pytest.mark.parametrize("user", NAMES)
@pytest.mark.parametrize("group", ["ops", "data team", "a,b", " ops", "-ops", "no-group", ""])
def test_a_printed_command_shows_the_refutation(
    user: str, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the names of a person, and whether a request can give the groups."""
    Path("queues.yaml").write_text(POLICY.replace("open", "other"))
    with Path("people.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([user, *([group] if group else []), "platform"])
        writer.writerow(["eve", group or "x"])
    claims("nobody may admin root.ml", "everyone may submit root.ml")
    answers = run_printed(prove("--users-from", "people.csv"), capsys)
    assert [answer.partition(":")[0] for answer in answers] == ["allowed", "denied"]


@pytest.mark.parametrize("user", ["CORP\\jdoe", "jdoe"])
@pytest.mark.parametrize("trusts", [True, False])
def test_a_request_cannot_give_the_groups(
    user: str, capsys: pytest.CaptureFixture[str], *, trusts: bool
) -> None:
    """The command then says what the resolver finds, and a note says why."""
    settings = {"partitions": {"default": {"trust_provided_groups": trusts}}}
    Path("queuegate.yaml").write_text(json.dumps(settings))
    claims(f"never user:{user} submit root.ml")
    done = prove("--config", "queuegate.yaml")
    assert done.exit_code == 1
    [answer] = run_printed(done, capsys)
    assert answer.startswith("allowed: ")
    refused = "CORP" in user
    assert ("is not a valid YuniKorn user name" in done.stdout) is refused
    assert ("trust_provided_groups: false" in done.stdout) is (not trusts and not refused)
    assert ("--resolved-group" in done.stdout) is (refused or not trusts)


@pytest.mark.parametrize("name", ["my queues.yaml", "q.yaml.gz", "-q.yaml", "it's.yaml"])
def test_files_of_a_printed_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A name is unused in a compressed file, too, if it is printed as that of somebody new."""
    text = POLICY.replace('" ml"', "somebody,somebody-else ml").encode()
    manifest = json.dumps({"kind": "ConfigMap", "data": {"queues.yaml": text.decode()}}).encode()
    for data in (text, manifest):
        Path(name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        claims("nobody may admin root.ml", "everyone may submit root.ml")
        done = CliRunner().invoke(command_group(), ["prove", "--", name, "claims.yaml"])
        answers = run_printed(done, capsys)
        assert [answer.partition(":")[0] for answer in answers] == ["allowed", "denied"]
        assert "somebody-else-else may not submit" in answers[1]
