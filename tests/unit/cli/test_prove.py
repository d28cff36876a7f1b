"""`queuegate-server prove`: its output, and its exit status."""

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
PROVED = "everyone in group:ml may submit root.ml"
REFUTED = "only group:ml may submit root.ml"
SITE = """<configuration><property><name>yarn.acl.enable</name><value>true</value></property>
<property><name>yarn.admin.acl</name><value>root ops</value></property></configuration>"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("queues.yaml").write_text(POLICY)


def claims(*texts: str, facts: tuple[str, ...] = ()) -> None:
    Path("claims.yaml").write_text(json.dumps({"facts": facts, "claims": texts}))


def prove(*options: str, policy: str = "queues.yaml") -> Result:
    return CliRunner().invoke(command_group(), ["prove", *options, policy, "claims.yaml"])


def test_proved() -> None:
    claims(PROVED, "everyone may submit root.open")
    done = prove()
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"claims.yaml:1:26: proved: {PROVED}",
        "claims.yaml:1:69: proved: everyone may submit root.open",
        "2 claims: 0 refuted",
    ]


def test_a_refutation_shows_the_acl_and_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    claims(REFUTED)
    done = prove()
    assert done.exit_code == 1
    command = "queuegate check --policy queues.yaml somebody root.ml --group platform"
    shown = (
        "  queues.yaml:5:19: somebody in platform may submit root.ml: the admin ACL of root lists"
        ' the group "platform"'
    )
    assert done.stdout.splitlines()[1:] == [shown, f"  $ {command}", "1 claim: 1 refuted"]
    assert queuegate(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.startswith("allowed: ")


def test_documents() -> None:
    claims(PROVED, REFUTED)
    proved, refuted = json.loads(prove("-o", "json").stdout)["claims"]
    assert proved["proved"] is True
    assert refuted["person"] == {"user": "somebody", "groups": ["platform"], "real_user": ""}
    (decision,) = refuted["decisions"]
    assert (decision["file"], decision["line"]) == ("queues.yaml", 5)
    (result,) = json.loads(prove("-o", "sarif").stdout)["runs"][0]["results"]
    assert result["level"] == "error"
    assert prove("-o", "github").stdout.startswith("::error file=queues.yaml,line=5,col=19,")
    table = prove("-o", "markdown").stdout.splitlines()
    assert [line.split("|")[2].strip() for line in table[2:]] == ["✅ proved", "❌ refuted"]


def test_worlds() -> None:
    claims("only group:staff may submit root.ml")
    assert prove().exit_code == 1
    claims(
        "only group:staff may submit root.ml",
        facts=("ml within staff", "platform within staff"),
    )
    assert prove().exit_code == 0
    claims("only group:staff may submit root.ml")
    Path("people.csv").write_text("ann,ml,staff\nbob,ext\n")
    assert prove("--users-from", "people.csv").exit_code == 0
    Path("people.csv").write_text("ann,ml,staff\nbob,ml\n")
    done = prove("--users-from", "people.csv")
    assert done.exit_code == 1
    assert "bob in ml may submit root.ml" in done.stdout


def test_groups_from_the_resolver_of_the_settings() -> None:
    Path("queues.yaml").write_text(POLICY.replace('" ml"', '" group1000"'))
    claims("never user:testuser2 submit root.ml")
    Path("names").write_text("testuser1\ntestuser2\nnobody-knows\n")
    assert "give the settings with --config" in prove("--users-from", "names").stderr
    settings = {
        "policy": {"path": "queues.yaml"},
        "resolvers": {"table": {"type": "test"}},
        "partitions": {"default": {"resolver": "table"}},
    }
    Path("queuegate.yaml").write_text(json.dumps(settings))
    options = ("--users-from", "names", "--config", "queuegate.yaml")
    done = prove(*options)
    assert (done.stderr, done.exit_code) == ("", 0)
    claims("nobody may submit root.ml")
    done = prove(*options)
    assert done.exit_code == 1
    assert "--config queuegate.yaml testuser1 root.ml --group group1000" in done.stdout
    Path("names").write_text("testuser5\n")
    assert 'the groups of "testuser5" cannot be looked up' in prove(*options).stderr
    claims("only user:testuser1 may submit root.ml", "nobody may submit root.ml")
    done = prove("--users-from", "directory", *options[2:])
    assert "proved: only user:testuser1 may submit root.ml" in done.stdout
    assert "testuser1 in group1000, group1001 may submit root.ml" in done.stdout


def test_compared_with_another_policy() -> None:
    Path("old").mkdir()
    Path("old/queues.yaml").write_text(POLICY.replace('" ml"', '" ops"'))
    claims("no new access compared with old/queues.yaml")
    done = prove()
    assert done.exit_code == 1
    assert [line for line in done.stdout.splitlines() if line.startswith("  $")] == [
        "  $ queuegate check --policy queues.yaml somebody root.ml --group ml",
        "  $ queuegate check --policy old/queues.yaml somebody root.ml --group ml",
    ]


def test_the_command_reads_a_file_of_yarn_in_the_same_way(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("site.xml").write_text(SITE)
    xml = '<allocations><queue name="a"><aclSubmitApps>~hue  ml</aclSubmitApps></queue>'
    Path("fair.xml").write_text(f"{xml}</allocations>")
    for semantics, subject in (("documented", "user:root"), ("hadoop", "group:ml")):
        claims(f"only {subject} may submit root.a")
        options = ("--yarn-site", "site.xml", "--semantics", semantics)
        done = prove(*options, "-o", "json", policy="fair.xml")
        assert done.exit_code == 1
        (decision,) = json.loads(done.stdout)["claims"][0]["decisions"]
        assert queuegate(shlex.split(decision["command"])[1:]) == 0, decision["command"]
        assert capsys.readouterr().out.startswith("allowed: ")


def test_the_command_about_a_user_who_looks_like_an_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    xml = '<allocations><queue name="a b"><aclSubmitApps>-x</aclSubmitApps></queue></allocations>'
    Path("fair.xml").write_text(xml)
    Path("site.xml").write_text(SITE)
    claims('only user:root, group:ops may submit "root.a b"')
    done = prove("--yarn-site", "site.xml", policy="fair.xml")
    command = "queuegate check --policy fair.xml --yarn-site site.xml -- -x 'root.a b'"
    assert f"  $ {command}" in done.stdout.splitlines()
    assert queuegate(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.startswith("allowed: -x may submit to root.a b")


def test_the_command_about_standard_input() -> None:
    claims(REFUTED)
    done = CliRunner().invoke(command_group(), ["prove", "-", "claims.yaml"], input=POLICY)
    command = "queuegate check --policy /dev/stdin somebody root.ml --group platform"
    assert f"  $ {command}" in done.stdout.splitlines()
    assert "  <stdin>:5:19: " in done.stdout
    with Path("queues.yaml").open() as file:
        words = [str(Path(sys.executable).with_name("queuegate")), *shlex.split(command)[1:]]
        assert subprocess.run(words, stdin=file, check=False).returncode == 0


def test_the_recovery_queue_is_named() -> None:
    claims("everyone may submit root.@recovery@")
    line = "somebody may not submit root.@recovery@: the recovery queue is never granted"
    assert f"  queues.yaml: {line}" in prove().stdout.splitlines()


def test_queues_that_do_not_exist_are_noted() -> None:
    claims("nobody may submit root.@recovery@", "never group:ext admin root.nosuch.a")
    done = prove()
    assert done.stderr.splitlines() == [
        'note: claims.yaml:1: queue "root.@recovery@" does not exist',
        'note: claims.yaml:1: queue "root.nosuch.a" does not exist; decided at root',
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[x", "claims.yaml:"),
        ('{"claims": ["nobody may submit prod"]}', '"prod" is not the full path of a queue'),
        ('{"partition": "gpu", "claims": ["nobody may submit root"]}', 'no partition "gpu"'),
        ('{"claims": ["no new access compared with nowhere"]}', "nowhere"),
    ],
)
def test_wrong_usage(text: str, message: str) -> None:
    Path("claims.yaml").write_text(text)
    done = prove()
    assert done.exit_code == 2
    assert message in done.stderr
    assert CliRunner().invoke(command_group(), ["prove", "queues.yaml"]).exit_code == 2
