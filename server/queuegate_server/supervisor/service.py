"""The operations port of a service with several workers, which the supervisor serves.

The service is ready while at least one worker serves, because calls reach that worker. At the
start it waits for all workers, because one that fails to start ends the service.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from queuegate_server.admin.readiness import Phase
from queuegate_server.settings.addresses import parse_host_port
from queuegate_server.supervisor.channel import ChannelError
from queuegate_server.supervisor.supervisor import Supervisor

SCRAPE_TIMEOUT: Final = 4.0
"""The port closes connections after 5 s."""


class ServiceStatus:
    """Readiness and metrics of all workers together."""

    def __init__(self, supervisor: Supervisor) -> None:
        """Report on the workers of a supervisor."""
        self._supervisor = supervisor
        self._scrape: asyncio.Task[bytes] | None = None

    async def readiness(self) -> dict[str, Any]:
        """Return why the service is ready or not, and what each worker reports."""
        phase = self._phase
        workers = await self._workers()
        serving = _serving(workers)
        return {
            "ready": phase is Phase.SERVING and serving > 0,
            "phase": phase,
            "serving": serving,
            "workers": {str(index): details for index, details in workers.items()},
        }

    async def startup(self) -> dict[str, Any]:
        """Return whether all workers have served."""
        return {"started": self._supervisor.all_served, "phase": self._phase}

    async def metrics(self) -> bytes:
        """Return the metrics of all workers, and those of the supervisor.

        Concurrent scrapes share one result. Raises TimeoutError.
        """
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.create_task(self._metrics())
        async with asyncio.timeout(SCRAPE_TIMEOUT):
            return await asyncio.shield(self._scrape)

    async def _metrics(self) -> bytes:
        merged: str
        merged, workers = await asyncio.gather(self._supervisor.metrics(), self._workers())
        registry = CollectorRegistry(auto_describe=False)
        registry.register(
            _SupervisorMetrics(len(workers), _serving(workers), self._supervisor.replaced)
        )
        own: bytes = generate_latest(registry)
        return merged.encode() + own

    async def _workers(self) -> dict[int, Mapping[str, Any]]:
        return {
            index: {"ready": False, "error": str(each)} if isinstance(each, ChannelError) else each
            for index, each in (await self._supervisor.readiness()).items()
        }

    @property
    def _phase(self) -> Phase:
        if self._supervisor.stop.is_set():
            return Phase.DRAINING
        return Phase.SERVING if self._supervisor.all_served else Phase.STARTING


class _SupervisorMetrics(Collector):
    def __init__(self, configured: int, serving: int, replaced: Mapping[str, int]) -> None:
        self._configured = configured
        self._serving = serving
        self._replaced = replaced

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "queuegate_workers", "Configured number of workers.", self._configured
        )
        yield GaugeMetricFamily(
            "queuegate_workers_serving", "Workers that report that they serve.", self._serving
        )
        replaced = CounterMetricFamily(
            "queuegate_workers_replaced", "Workers that were replaced.", labels=("reason",)
        )
        for reason, count in self._replaced.items():
            replaced.add_metric((reason,), count)
        yield replaced


@asynccontextmanager
async def serve_admin_port(listen: str | None, supervisor: Supervisor) -> AsyncIterator[None]:
    """Serve the operations port if an address is configured. Raises CannotListen."""
    if listen is None:
        yield
        return
    from queuegate_server.admin.http import AdminServer  # noqa: PLC0415 - slow, optional

    server = AdminServer(parse_host_port(listen), ServiceStatus(supervisor))
    await server.start()
    try:
        yield
    finally:
        await server.close()


def _serving(workers: Mapping[int, Mapping[str, Any]]) -> int:
    return sum(details.get("ready") is True for details in workers.values())
