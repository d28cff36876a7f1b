"""A policy file passed with settings that have several policies, or policies in ConfigMaps."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queuegate_server.cli.main import command_group
from queuegate_server.settings.load import SettingsError, load_settings
from tests.support.generators.yarn_files import prop

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
REFUSAL = (
    "queuegate.yaml:1:1: error: policies: cannot be combined with {0} (use settings with a single"
    " `policy`, or omit {0} to use these policies)"
)
OWN_WORDS = "set either policy or policies, not both"


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


def test_policies_from_another_source_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = REFUSAL.format("--policy").removeprefix("queuegate.yaml:1:1: error: policies: ")
    done = run("serve", "--set", "policies=[{path: new.yaml}]", "--policy", "queues.yaml")
    assert f"--set policies: error: {refusal}" in done.output.splitlines()
    monkeypatch.setenv("QUEUEGATE_POLICIES", "[{path: new.yaml}]")
    done = run("serve", "--policy", "queues.yaml")
    assert f"QUEUEGATE_POLICIES: error: policies: {refusal}" in done.output.splitlines()


def test_variables_and_the_file_itself_replace_nothing() -> None:
    variables = {"QUEUEGATE_POLICY__PATH": "queues.yaml"}
    with pytest.raises(SettingsError, match=OWN_WORDS):
        load_settings(Path("queuegate.yaml"), variables)
    with pytest.raises(SettingsError, match=OWN_WORDS):
        load_settings(Path("queuegate.yaml"), {}, ["policy.path=queues.yaml"])
    Path("queuegate.yaml").write_text(f"policy: {{path: new.yaml}}\n{TWO}")
    with pytest.raises(SettingsError, match=OWN_WORDS):
        load_settings(Path("queuegate.yaml"))
