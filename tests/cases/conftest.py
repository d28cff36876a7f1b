"""What golden cases can ask for with a line `with NAME`."""

from collections.abc import Iterator

import pytest

from tests.support.fakes.scripted_server import ScriptedServer


@pytest.fixture
def scripted_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A server that answers by a script, whose address `queuegate` finds in its environment."""
    with ScriptedServer() as server:
        monkeypatch.setenv("QUEUEGATE_ADDRESS", server.address)
        yield {server.address: "$ADDRESS"}
