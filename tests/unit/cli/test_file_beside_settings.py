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
YARN = ("--partition", "yarn")
UNKNOWN = (
    "is not one of the policies in queuegate.yaml, so it is unknown which of their options apply to"
    " it: partition, yarn_site (name one of these policies, or settings with a single `policy`)"
)


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


@pytest.mark.parametrize("file", ["fair.xml", "./fair.xml", "../{}/fair.xml"])
def test_the_options_of_the_entry_apply(file: str, tmp_path: Path, capsys: Capture) -> None:
    file = file.format(tmp_path.name)
    check = ("--policy", file, *CONFIG, *YARN)
    assert queuegate(["explain", "boss", "root.etl", "--access", "admin", *check]) == 0
    assert "the user administers the cluster" in capsys.readouterr().out
    assert queuegate(["explain", "joe", "root.etl", "--no-groups", *check]) == 1
    assert queuegate(["tree", *check]) == 0
    assert "etl  user alice" in capsys.readouterr().out


def test_all_commands_accept_one_of_the_policies() -> None:
    done = run("validate", *CONFIG, "queues.yaml", "fair.xml")
    assert (done.stderr, done.exit_code) == ("2 files, 0 errors, 0 warnings\n", 0)
    assert run("lint", *CONFIG, "queues.yaml", "fair.xml").stderr.startswith("2 files, 0 errors")
    done = run("diff", "--people", *CONFIG, "fair.xml", "fair.xml")
    assert (done.stdout, done.stderr, done.exit_code) == ("", "", 0)
    Path("claims.yaml").write_text("claims: ['never user:joe submit root.etl']")
    done = run("prove", *CONFIG, "fair.xml", "claims.yaml")
    assert done.exit_code == 0
    Path("claims.yaml").write_text("claims: ['only user:alice may submit root.etl']")
    done = run("prove", *CONFIG, "fair.xml", "claims.yaml")
    assert "boss may submit root.etl" in done.stdout
    command = done.stdout.splitlines()[2].removeprefix("  $ queuegate ")
    assert queuegate(command.split()) == 0
    Path("q_test.yaml").write_text(
        "policy: fair.xml\nconfig: queuegate.yaml\nusers: {boss: }\ntests:\n"
        "- {user: boss, queue: root.etl, access: admin, partition: yarn, allowed: true}\n"
    )
    done = run("test", "q_test.yaml")
    assert "1 check: 0 failed" in done.stdout


def test_another_file_is_refused_in_the_words_of_the_command(capsys: Capture) -> None:
    assert queuegate(["explain", "bob", "root", "--policy", "new.yaml", *CONFIG]) == 2
    assert f"--policy: error: new.yaml {UNKNOWN}" in capsys.readouterr().err
    for command in (
        ["validate", *CONFIG, "new.yaml"],
        ["lint", *CONFIG, "new.yaml"],
        ["diff", "--people", *CONFIG, "queues.yaml", "new.yaml"],
    ):
        done = run(*command)
        assert f"new.yaml: error: {UNKNOWN}" in done.output
        assert "not both" not in done.output
        assert done.exit_code in {1, 2}


def test_another_file_is_read_if_the_policies_have_no_options(capsys: Capture) -> None:
    Path("queuegate.yaml").write_text("policies: [{path: queues.yaml}, {configs: maps}]\n")
    assert queuegate(["explain", "bob", "root", "--policy", "new.yaml", *CONFIG]) == 0
    assert run("validate", *CONFIG, "new.yaml").exit_code == 0
    Path("queuegate.yaml").write_text("policies: {path: queues.yaml}\n")
    assert run("lint", *CONFIG, "new.yaml").exit_code == 0


def test_a_file_replaces_config_maps(capsys: Capture) -> None:
    Path("queuegate.yaml").write_text("policy: {configs: maps, defaults: maps, group: g}\n")
    assert queuegate(["explain", "bob", "root", "--policy", "new.yaml", *CONFIG]) == 0
    assert run("validate", *CONFIG, "new.yaml").exit_code == 0


def test_variables_and_the_file_itself_replace_nothing() -> None:
    variables = {"QUEUEGATE_POLICY__PATH": "queues.yaml"}
    with pytest.raises(SettingsError, match="set either policy or policies, not both"):
        load_settings(Path("queuegate.yaml"), variables)
    Path("queuegate.yaml").write_text(f"policy: {{path: new.yaml}}\n{TWO}")
    with pytest.raises(SettingsError, match="set either policy or policies, not both"):
        load_settings(Path("queuegate.yaml"), {}, ["policy.path=queues.yaml"])
