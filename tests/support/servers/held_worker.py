"""`queuegate-server` whose workers listen, but do not report it while a file exists."""

import asyncio
import os
from pathlib import Path

from queuegate_server.cli.main import main
from queuegate_server.supervisor.worker_client import WorkerClient

_ready = WorkerClient.ready


async def _ready_once_released(self: WorkerClient, lines: list[str]) -> None:
    while Path(os.environ["HOLD"]).exists():  # noqa: ASYNC110, ASYNC240 - the test is another process
        await asyncio.sleep(0.01)
    await _ready(self, lines)


if __name__ == "__main__":
    WorkerClient.ready = _ready_once_released  # type: ignore[method-assign]
    main()
