"""A policy file passed with settings that have several policies, or policies in ConfigMaps."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queuegate.cli import main as queuegate
from queuegate_server.cli.main import command_group
from queuegate_server.settings.load import SettingsError, load_settings
from tests.support.generators.yarn_files import prop

Capture = pytest.CaptureFixture[str]
FAIR = """<allocations><queue name="root"><aclSubmitApps> </aclSubmitApps>
<aclAdministerApps> </aclAdministerApps>
<queue name="etl"><aclSubmitApps>alice</aclSubmitApps></queue></queue></allocations>"""
SCHEDULER = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler"
SITE = f"""<configuration>
{prop("yarn.acl.enable", "true")}
{prop("yarn.admin.acl", "boss")}
{prop("yarn.resourcemanager.scheduler.class", SCHEDULER)}
</configuration>"""
QUEUES = "partitions: [{name: default, queues: [{name: root, submitacl: bob}]}]\n"
TWO = (
    "policies:\n- {path: queues.yaml}\n- {path: fair.xml, yarn_site: site.xml, partition: yarn}\n"
    "partitions: {yarn: {trust_provided_groups: true}, default: {acl_names: any}}\n"
)
CONFIG = ("--config", "queuegate.yaml")
REFUSAL = (
    "queuegate.yaml:1:1: error: policies: cannot be combined with {0} (use settings with a single"
    " `policy`, or omit {0} to use these policies)"
)
OWN_WORDS = "set either policy or policies, not both"
CLAIMS = "claims: ['never user:joe submit root.etl']"
TESTS = """policy: queues.yaml
config: queuegate.yaml
users: {bob: }
tests:
- {user: bob, queue: root, allowed: true}
"""
SINGLE = "policies: {path: queues.yaml}\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fair.xml").write_text(FAIR)
    Path("site.xml").write_text(SITE)
    for name in ("queues.yaml", "new.yaml"):
        Path(name).write_text(QUEUES)
    Path("queuegate.yaml").write_text(TWO)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command_group(), arguments)


@pytest.mark.parametrize("settings", [TWO, SINGLE])
@pytest.mark.parametrize(
    "command",
    [
        "validate {} queues.yaml",
        "lint {} queues.yaml",
        "lint {} new.yaml",
        "diff --people {} queues.yaml new.yaml",
        "prove {} queues.yaml claims.yaml",
        "test q_test.yaml",
    ],
)
def test_a_file_does_not_replace_several_policies(command: str, settings: str) -> None:
    """Not even if it is one of them: `partitions` may contain settings for the others."""
    Path("queuegate.yaml").write_text(settings)
    Path("claims.yaml").write_text(CLAIMS)
    Path("q_test.yaml").write_text(TESTS)
    done = run(*command.format(" ".join(CONFIG)).split())
    assert REFUSAL.format("the policy file") in done.output.splitlines()
    assert "FILE" not in done.output
    assert OWN_WORDS not in done.output
    assert done.exit_code == (1 if command.startswith("validate") else 2)


@pytest.mark.parametrize("others", [[], ["--set", "policy.partition=x"]])
def test_the_message_names_the_option(others: list[str], capsys: Capture) -> None:
    done = run("serve", *others, "--policy", "queues.yaml", *CONFIG)
    assert REFUSAL.format("--policy") in done.output.splitlines()
    assert OWN_WORDS not in done.output
    assert done.exit_code == 2
    for command in (["explain", "bob", "root"], ["tree"]):
        assert queuegate([*command, "--policy", "queues.yaml", *CONFIG]) == 2
        assert REFUSAL.format("--policy") in capsys.readouterr().err


def test_policies_from_another_source_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = REFUSAL.format("--policy").removeprefix("queuegate.yaml:1:1: error: policies: ")
    done = run("serve", "--set", "policies=[{path: new.yaml}]", "--policy", "queues.yaml")
    assert f"--set policies: error: {refusal}" in done.output.splitlines()
    monkeypatch.setenv("QUEUEGATE_POLICIES", "[{path: new.yaml}]")
    done = run("serve", "--policy", "queues.yaml")
    assert f"QUEUEGATE_POLICIES: error: policies: {refusal}" in done.output.splitlines()


def test_without_a_file_all_policies_are_read(capsys: Capture) -> None:
    assert run("validate", *CONFIG).exit_code == 0
    assert run("lint", *CONFIG).stderr.startswith("2 files, 0 errors")
    assert queuegate(["explain", "bob", "root", *CONFIG]) == 0
    yarn = ("--partition", "yarn")
    assert queuegate(["explain", "boss", "root.etl", "--access", "admin", *CONFIG, *yarn]) == 0
    assert "the user administers the cluster" in capsys.readouterr().out


def test_a_file_replaces_config_maps(capsys: Capture) -> None:
    Path("queuegate.yaml").write_text("policy: {configs: maps, defaults: maps, group: g}\n")
    assert queuegate(["explain", "bob", "root", "--policy", "new.yaml", *CONFIG]) == 0
    assert run("validate", *CONFIG, "new.yaml").exit_code == 0
    Path("queuegate.yaml").write_text("policy: {configs: maps, grup: g}\n")
    assert "grup: unknown key" in run("validate", *CONFIG, "new.yaml").stdout
    maps = ("--set", "policy.configs=maps")
    assert "path cannot be combined" in run("serve", *maps, "--policy", "new.yaml").output


def test_variables_and_the_file_itself_replace_nothing() -> None:
    variables = {"QUEUEGATE_POLICY__PATH": "queues.yaml"}
    with pytest.raises(SettingsError, match=OWN_WORDS):
        load_settings(Path("queuegate.yaml"), variables)
    with pytest.raises(SettingsError, match=OWN_WORDS):
        load_settings(Path("queuegate.yaml"), {}, ["policy.path=queues.yaml"])
    Path("queuegate.yaml").write_text(f"policy: {{path: new.yaml}}\n{TWO}")
    with pytest.raises(SettingsError, match=OWN_WORDS):
        load_settings(Path("queuegate.yaml"))
