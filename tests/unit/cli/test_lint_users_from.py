"""`queuegate-server lint` with `--users-from`, and with the settings of a server."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from queuegate_server.cli.policy_files import lint
from queuegate_server.engine import Snapshot
from queuegate_server.server.offline import OfflineServices

POLICY = "<allocations><queue name='root'><aclSubmitApps>bob</aclSubmitApps></queue></allocations>"


def test_each_policy_is_loaded_once_for_lookups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loads = []
    load = OfflineServices.load

    async def counted(services: OfflineServices) -> Snapshot:
        loads.append(services)
        return await load(services)

    monkeypatch.setattr(OfflineServices, "load", counted)
    names = [f"p{number}.xml" for number in range(4)]
    for name in names:
        Path(name).write_text(POLICY)
    sources = ", ".join(f"{{path: {name}, partition: {name[:2]}}}" for name in names)
    Path("queuegate.yaml").write_text(f"policies: [{sources}]\n")
    Path("people").write_text("sue\n")
    CliRunner().invoke(lint, ["--config", "queuegate.yaml", "--users-from", "people"])
    assert len(loads) == 1
