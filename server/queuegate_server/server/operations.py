"""Puts together what operators see: the operations port, metrics, the audit log."""

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from queuegate_server.admin.readiness import Phase, Status
from queuegate_server.engine import Engine
from queuegate_server.observe.audit import AuditLog, open_audit_log
from queuegate_server.observe.calls import Calls
from queuegate_server.observe.lookups import Lookups
from queuegate_server.policystore.reloader import Reloader
from queuegate_server.policystore.resolver_manager import ResolverManager
from queuegate_server.rpc.decision_log import DecisionLog
from queuegate_server.rpc.interceptors import CallLimit
from queuegate_server.runtime.tcp import address_of, open_tcp
from queuegate_server.settings.addresses import parse_host_port
from queuegate_server.settings.model import Settings
from queuegate_server.transports.tls import ReloadingCredentials

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuegate_server.admin.http import OpsServer

_LOG = logging.getLogger("queuegate_server.server.operations")


class Operations:
    """What the server counts and records, and the port that shows it. Used from one event
    loop, which must be running.
    """

    def __init__(self, settings: Settings, *, worker: int | None = None) -> None:
        """Open the audit log and the port. One worker of several has an audit log of its own;
        the port is its supervisor's, which asks for what is shown there. Raises CannotAudit
        and CannotListen.
        """
        listen = settings.ops.listen
        self._is_shown = listen is not None
        alone = worker is None
        self._socket = open_tcp(*parse_host_port(listen)) if listen is not None and alone else None
        self._audit: AuditLog | None = open_audit_log(
            settings.audit if worker is None else settings.audit.of_worker(worker)
        )
        self.calls = Calls()
        self.lookups = Lookups()
        self.limit = CallLimit(settings.limits.max_concurrent_calls)
        self.decisions = DecisionLog(
            self._audit, allowed=settings.audit.records == "all", wall=time.time
        )
        self._status: Status | None = None
        self._write_metrics: Callable[[], bytes] = bytes
        self._server: OpsServer | None = None

    @property
    def is_auditing(self) -> bool:
        """Whether there is an audit log."""
        return self._audit is not None

    async def start(
        self,
        engine: Engine,
        reloader: Reloader,
        sources: ResolverManager,
        certificates: Sequence[ReloadingCredentials],
    ) -> None:
        """Serve the port, if there is one. Readiness and metrics are known from now on."""
        status = self._status = Status(engine, reloader)
        if not self._is_shown:
            return
        # Slow, and only for those who have the port.
        from queuegate_server.admin.http import OpsServer  # noqa: PLC0415
        from queuegate_server.admin.versions import versions  # noqa: PLC0415
        from queuegate_server.observe.metrics.registry import Sources, metrics  # noqa: PLC0415

        running = versions()
        seen = Sources(
            engine=engine,
            reloads=reloader,
            calls=self.calls,
            in_progress=self.limit,
            decided=self.decisions,
            lookups=self.lookups,
            resolvers=sources,
            audit=self._audit,
            certificates=certificates,
            is_ready=lambda: status.is_ready,
            version=running,
        )
        self._write_metrics = metrics(seen)
        if self._socket is None:
            return
        self._server = OpsServer(self, running)
        address = address_of(self._socket)
        await self._server.start(self._socket)
        _LOG.info("operations port is open", extra={"address": address})

    def details(self) -> dict[str, Any]:
        """Return why this process is ready or not."""
        return {"ready": False} if self._status is None else self._status.details()

    def metrics_text(self) -> str:
        """Return the metrics of this process; nothing if they are shown nowhere."""
        return self._write_metrics().decode()

    async def readiness(self) -> dict[str, Any]:
        """Return what /readyz says."""
        return self.details()

    async def startup(self) -> dict[str, Any]:
        """Return what /startupz says."""
        return {"started": False} if self._status is None else self._status.startup()

    async def metrics(self) -> bytes:
        """Return what /metrics says."""
        return self._write_metrics()

    def set_phase(self, phase: Phase) -> None:
        """Say what the server does from now on."""
        if self._status is not None:
            self._status.phase = phase

    async def close(self) -> None:
        """Write what waits for the audit log, and close the port."""
        if self._audit is not None:
            await self._audit.close()
        if self._server is not None:
            await self._server.close()
        elif self._socket is not None:
            self._socket.close()
