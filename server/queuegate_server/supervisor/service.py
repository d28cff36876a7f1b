"""The operations port of a service with several workers, served by the supervisor.

The service is ready while at least one worker is serving. It counts as started as soon as all
workers have been serving at the same time, because until then, a worker that exits stops the
service.

Counters and histograms are summed over all workers, including former ones, because counters must
not decrease. Other metrics get a `worker` label.
"""

import asyncio
from collections.abc import AsyncIterator, Container, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from queuegate_server.admin.certificate import ops_certificate
from queuegate_server.admin.readiness import Phase
from queuegate_server.observe.metric_families import WORKERS
from queuegate_server.settings.listeners import parse_host_port
from queuegate_server.settings.observability import Ops
from queuegate_server.supervisor.channel import ChannelError
from queuegate_server.supervisor.supervisor import Supervisor

METRICS_TIMEOUT: Final = 2.0
READINESS_TIMEOUT: Final = 0.5
"""The workers' time limit, in seconds. A hung worker must not delay probes, which usually time out
after 1 s."""
_SUMMED: Final = frozenset({"counter", "histogram"})

_Labels = tuple[tuple[str, str], ...]


class MergedMetrics:
    """The latest metrics of each worker, and sums over former workers."""

    def __init__(self) -> None:
        self._latest: dict[int, tuple[int, list[Metric]]] = {}
        self._ended = _MergedCollector()

    def update(self, index: int, pid: int, text: str) -> None:
        """Replace a worker's metrics, given in the Prometheus text format. Raises ValueError."""
        metrics = list(text_string_to_metric_families(text))
        before = self._latest.get(index)
        if before is not None and before[0] != pid:
            self._ended.add(before[1], summed=True)
        self._latest[index] = (pid, metrics)

    def text(self, responding: Container[int], others: Iterable[Metric] = ()) -> bytes:
        """Render sums over all workers, the gauges of the responding workers, and `others`."""
        merged = _MergedCollector(others)
        merged.add(self._ended.collect(), summed=True)
        for index, (_, metrics) in sorted(self._latest.items()):
            merged.add(metrics, summed=True)
            if index in responding:
                merged.add(metrics, summed=False, worker=str(index))
        registry = CollectorRegistry(auto_describe=False)
        registry.register(merged)
        return bytes(generate_latest(registry))


class _MergedCollector(Collector):
    def __init__(self, others: Iterable[Metric] = ()) -> None:
        self._others = others
        self._families: dict[str, tuple[Metric, dict[tuple[str, _Labels], float]]] = {}

    def add(self, metrics: Iterable[Metric], *, summed: bool, **labels: str) -> None:
        """Add the counters and histograms if `summed`, else all other metrics, with `labels`."""
        for metric in metrics:
            # Skip creation times, which cannot be summed.
            if (metric.type in _SUMMED) is not summed or metric.name.endswith("_created"):
                continue
            _, values = self._families.setdefault(metric.name, (metric, {}))
            for sample in metric.samples:
                key = (sample.name, tuple({**sample.labels, **labels}.items()))
                values[key] = values.get(key, 0.0) + sample.value

    def collect(self) -> Iterator[Metric]:
        for metric, values in self._families.values():
            family = Metric(metric.name, metric.documentation, metric.type)
            for (sample, labels), value in values.items():
                family.add_sample(sample, dict(labels), value)
            yield family
        yield from self._others


class ServiceStatus:
    """The combined readiness and metrics of all workers."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._merged = MergedMetrics()

    async def readiness(self) -> dict[str, Any]:
        """Return whether the service is ready, with each worker's report."""
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
        """Return whether all workers have been serving at the same time."""
        return {"started": self._supervisor.all_served, "phase": self._phase}

    async def metrics(self) -> bytes:
        """Return the metrics of all workers and the supervisor.

        For a worker that does not respond, the most recent counters are used.
        """
        supervisor = self._supervisor
        pids = {worker.index: worker.pid for worker in supervisor.workers}
        responses, workers = await asyncio.gather(
            supervisor.request_all("metrics", seconds=METRICS_TIMEOUT), self._workers()
        )
        texts = {i: text for i, text in responses.items() if not isinstance(text, ChannelError)}
        for index, text in texts.items():
            self._merged.update(index, pids[index], text)
        own = worker_metrics(len(workers), _serving(workers), supervisor.replaced)
        return self._merged.text(texts, own)

    async def _workers(self) -> dict[int, Mapping[str, Any]]:
        """Return each worker's readiness report, or an error report if it did not respond."""
        supervisor = self._supervisor
        responses = await supervisor.request_all("readiness", seconds=READINESS_TIMEOUT)
        running = {worker.index for worker in supervisor.workers}
        silent = {
            index: "it is starting" if index in running else "it has ended"
            for index in range(supervisor.size)
        }
        return {
            index: {"ready": False, "error": str(response)}
            if isinstance(response, str | ChannelError)
            else response
            for index, response in (silent | responses).items()
        }

    @property
    def _phase(self) -> Phase:
        if self._supervisor.stop.is_set():
            return Phase.DRAINING
        return Phase.SERVING if self._supervisor.all_served else Phase.STARTING


@asynccontextmanager
async def serve_admin_port(ops: Ops, supervisor: Supervisor) -> AsyncIterator[None]:
    """Serve the operations port if an address is configured. Raises CannotListen."""
    if ops.listen is None:
        yield
        return
    from queuegate_server.admin.http import AdminServer  # noqa: PLC0415 - slow, optional

    certificate = ops_certificate(ops)
    server = AdminServer(parse_host_port(ops.listen), ServiceStatus(supervisor), certificate)
    await server.start()
    watching = None if certificate is None else asyncio.create_task(certificate.watch())
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()
        await server.close()


def worker_metrics(configured: int, serving: int, replaced: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the supervisor's metrics. `replaced` counts the replaced workers by reason."""
    samples: dict[str, list[tuple[tuple[str, ...], int]]] = {
        "queuegate_workers": [((), configured)],
        "queuegate_workers_serving": [((), serving)],
        "queuegate_workers_replaced": [((reason,), count) for reason, count in replaced.items()],
    }
    for name, family in WORKERS.items():
        metric = family.empty()
        for sample in samples[name]:
            metric.add_metric(*sample)
        yield metric


def _serving(workers: Mapping[int, Mapping[str, Any]]) -> int:
    return sum(details.get("ready") is True for details in workers.values())
