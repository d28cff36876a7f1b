"""The operations port of a service with several workers; the supervisor serves it.

Ready is the service while one worker at least says that it serves: calls that arrive get
there. At the start it waits for all of them, because a start that fails in one ends all.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from queuegate_server.admin.readiness import Phase
from queuegate_server.runtime.tcp import address_of, open_tcp
from queuegate_server.settings.addresses import parse_host_port
from queuegate_server.supervisor.channel import ChannelError
from queuegate_server.supervisor.supervisor import Supervisor

_LOG = logging.getLogger("queuegate_server.server.operations")
_SCRAPE_SECONDS: Final = 4.0
"""The port cuts connections after 5 s."""


class Service:
    """What is known of all workers together. Used from one event loop."""

    def __init__(self, supervisor: Supervisor) -> None:
        """Take what looks after the workers."""
        self._supervisor = supervisor
        self._scrape: asyncio.Task[bytes] | None = None

    async def readiness(self) -> dict[str, Any]:
        """Return why the service is ready or not, and what each worker says."""
        phase = self._phase
        workers = await self._workers()
        serving = _serving(workers)
        return {
            "ready": phase is Phase.SERVING and serving > 0,
            "phase": phase,
            "serving": serving,
            "workers": {str(index): said for index, said in workers.items()},
        }

    async def startup(self) -> dict[str, Any]:
        """Return whether all workers have served."""
        return {"started": self._supervisor.all_served, "phase": self._phase}

    async def metrics(self) -> bytes:
        """Return the metrics of all workers, and those of the supervisor.

        Those who ask at the same time get the same answer. Raises TimeoutError.
        """
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.create_task(self._metrics())
        async with asyncio.timeout(_SCRAPE_SECONDS):
            return await asyncio.shield(self._scrape)

    async def _metrics(self) -> bytes:
        merged: str
        merged, workers = await asyncio.gather(self._supervisor.metrics(), self._workers())
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Own(len(workers), _serving(workers), self._supervisor.replaced))
        own: bytes = generate_latest(registry)
        return merged.encode() + own

    async def _workers(self) -> dict[int, Mapping[str, Any]]:
        return {
            index: {"ready": False, "error": str(said)} if isinstance(said, ChannelError) else said
            for index, said in (await self._supervisor.readiness()).items()
        }

    @property
    def _phase(self) -> Phase:
        if self._supervisor.is_ending:
            return Phase.DRAINING
        return Phase.SERVING if self._supervisor.all_served else Phase.STARTING


class _Own(Collector):
    def __init__(self, configured: int, serving: int, replaced: Mapping[str, int]) -> None:
        self._configured = configured
        self._serving = serving
        self._replaced = replaced

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("queuegate_workers", "Workers there should be.", self._configured)
        yield GaugeMetricFamily(
            "queuegate_workers_serving", "Workers that say they serve.", self._serving
        )
        replaced = CounterMetricFamily(
            "queuegate_workers_replaced", "Workers that were replaced.", labels=("reason",)
        )
        for reason, count in self._replaced.items():
            replaced.add_metric((reason,), count)
        yield replaced


@asynccontextmanager
async def operations_port(listen: str | None, supervisor: Supervisor) -> AsyncIterator[None]:
    """Serve the operations port, if an address is given. Raises CannotListen."""
    if listen is None:
        yield
        return
    # Slow, and only for those who have the port.
    from queuegate_server.admin.http import OpsServer  # noqa: PLC0415
    from queuegate_server.admin.versions import versions  # noqa: PLC0415

    opened = open_tcp(*parse_host_port(listen))
    server = OpsServer(Service(supervisor), versions())
    address = address_of(opened)
    await server.start(opened)
    _LOG.info("operations port is open", extra={"address": address})
    try:
        yield
    finally:
        await server.close()


def _serving(workers: Mapping[int, Mapping[str, Any]]) -> int:
    return sum(said.get("ready") is True for said in workers.values())
