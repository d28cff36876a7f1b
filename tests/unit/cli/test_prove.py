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
    summary = "1 claim: 1 refuted (one counterexample each; there may be others)"
    assert done.stdout.splitlines()[1:] == [shown, f"  $ {command}", summary]
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
    assert "is refuted, for example: somebody in platform may submit" in result["message"]["text"]
    assert prove("-o", "github").stdout.startswith("::error file=queues.yaml,line=5,col=19,")
    table = prove("-o", "markdown").stdout.splitlines()
    assert table[0] == "| claim | | one counterexample |"
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
    done = prove("--users-from", "people.csv")
    assert done.exit_code == 0
    assert done.stdout.endswith("1 claim: 0 refuted (for the 2 people in people.csv)\n")
    Path("more.csv").write_text("ann,ml,staff\n")
    done = prove("--users-from", "more.csv", "--users-from", "people.csv")
    assert done.stdout.endswith("refuted (for the 2 people in more.csv, people.csv)\n")
    done = prove("--users-from", "more.csv")
    assert done.stdout.endswith("1 claim: 0 refuted (for the 1 person in more.csv)\n")
    Path("people.csv").write_text("ann,ml,staff\nbob,ml\n")
    done = prove("--users-from", "people.csv")
    assert done.exit_code == 1
    assert "bob in ml may submit root.ml" in done.stdout
    assert "1 refuted (for the 2 people in people.csv) (one counterexample" in done.stdout


def test_groups_from_the_resolver_of_the_settings() -> None:
    Path("queues.yaml").write_text(POLICY.replace('" ml"', '" group1000"'))
    claims("never user:testuser2 submit root.ml")
    Path("names").write_text("testuser1\ntestuser2\nnobody-knows\n")
    assert "pass the settings with --config" in prove("--users-from", "names").stderr
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
    line = "somebody may not submit root.@recovery@: access to the recovery queue is never granted"
    assert f"  queues.yaml: {line}" in prove().stdout.splitlines()


def test_the_recovery_queue_does_not_exist() -> None:
    claims("nobody may submit root.@recovery@")
    done = prove()
    assert done.exit_code == 0
    assert done.stderr == 'note: claims.yaml:1: queue "root.@recovery@" does not exist\n'


@pytest.mark.parametrize(
    "claim",
    [
        "never group:ext submit root.ml.old",
        "only group:ml may submit root.ml.old.**",
        "nobody may submit both root.open and root.ml.old",
        "submit root.ml.old within submit root.open",
    ],
)
def test_claims_about_a_queue_that_does_not_exist_are_not_valid(claim: str) -> None:
    """They would hold because another queue decides: the queue may have been renamed."""
    claims(claim, "everyone may submit rooot.x", PROVED)
    done = prove()
    assert done.exit_code == 2
    assert done.stdout == ""
    first, second = [line for line in done.stderr.splitlines() if ": error: " in line]
    message = 'error: queue "root.ml.old" does not exist, and root.ml decides instead: '
    remedy = "correct the name, or name root.ml if the claim is about new queues"
    assert first.endswith(message + remedy)
    assert "rooot.x" in second


def test_claims_about_nobody() -> None:
    claims("never group:interns submit root.ml", "everyone in group:ml may submit root.ml")
    Path("people.csv").write_text("ann,ml\n")
    done = prove("--users-from", "people.csv")
    note = "nobody matches group:interns, so the claim holds whatever the policy says"
    assert done.stderr == f"note: claims.yaml:1: {note}\n"
    assert done.exit_code == 0


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


def test_the_printed_command_with_a_service(capsys: pytest.CaptureFixture[str]) -> None:
    acls = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"
    queue = "<queue name='a'><aclSubmitApps>~oozie</aclSubmitApps></queue>"
    text = f"<allocations><queue name='root'>{acls}{queue}</queue></allocations>"
    Path("fair.xml").write_text(text)
    claims("nobody may submit root.a")
    done = prove("--semantics", "hadoop", policy="fair.xml")
    assert done.exit_code == 1
    [answer] = run_printed(done, capsys)
    assert answer.startswith("allowed: ")


def test_a_claim_about_a_name_of_several_queues() -> None:
    key = "yarn.scheduler.capacity.root"
    Path("cs.xml").write_text(
        f"<configuration><property><name>{key}.queues</name><value>a,b</value></property>"
        f"<property><name>{key}.b.queues</name><value>a,c</value></property></configuration>"
    )
    claims("only group:ml may submit a", "everyone may submit c")
    done = prove("--semantics", "hadoop", policy="cs.xml")
    shared = "a is the name of several queues: root.a, root.b.a (write the full path)"
    assert done.stderr == f"Error: the claims are not valid:\nclaims.yaml:1:26: error: {shared}\n"
    assert done.exit_code == 2
    claims("everyone may submit c")
    done = prove("--semantics", "hadoop", policy="cs.xml")
