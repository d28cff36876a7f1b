"""`check` finds what a server would not start with, and nothing else."""

import time
from pathlib import Path
from typing import Any

from queuegate_server.engine import Engine
from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.identity.manager import ResolverManager
from queuegate_server.policystore.reloader import Reloader, check
from queuegate_server.reloads import ReloadCause
from queuegate_server.settings.model import Settings
from tests.support.rows import rows

POLICY = """\
partitions:
  - name: default
    queues: [{{name: root, submitacl: "sue, bob"}}]
{more}"""
ASKS = "    usergroupresolver: {{type: {type}}}\n"
SECOND = "  - name: gpu\n    queues: [{name: root}]\n"
LDAP = {
    "type": "ldap",
    "urls": ["ldaps://127.0.0.1"],
    "bind": "anonymous",
    "user_base": "dc=a",
    "group_base": "dc=a",
}


@rows
async def test_as_the_first_load(
    tmp_path: Path, more: str, settings: dict[str, Any], expected: str
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(POLICY.format(more=more))
    built = Settings.model_validate({"policy": {"path": file}, **settings})
    resolvers = ResolverManager(built, time.monotonic, time.time)
    reloader = Reloader(built, resolvers, Engine(time.monotonic), time.time)
    found = await check(built)
    state = await reloader.reload(ReloadCause.START)
    reloader.close()
    await resolvers.close()
    assert found == state.diagnostics
    assert has_errors(found) is not state.succeeded
    assert bool(expected) is not state.succeeded
    assert expected in "\n".join(map(str, found))


async def test_the_partition_of_a_yarn_cluster(tmp_path: Path) -> None:
    file = tmp_path / "fair-scheduler.xml"
    file.write_text("<allocations/>")
    settings: dict[str, Any] = {"policy": {"path": file}, "partitions": {"prod": {}}}
    (unused,) = await check(Settings.model_validate(settings))
    assert "the settings name the partition 'prod', but the policy has 'default'" in unused.message
    assert unused.remedy.endswith("; for YARN, `policy.partition: prod` also works")
    settings["policy"]["partition"] = "prod"
    assert await check(Settings.model_validate(settings)) == ()


async def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (found,) = await check(Settings.model_validate({"policy": {"path": tmp_path / "nowhere"}}))
    assert "cannot be read: No such file" in found.message
