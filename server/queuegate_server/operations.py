"""Puts together what operators see: the operations port, metrics, the audit log."""

import logging
import platform
import time
from importlib.metadata import version
from typing import TYPE_CHECKING

import grpc

from queuegate_server.engine import Engine
from queuegate_server.group_sources import GroupSources
from queuegate_server.observe.audit import AuditLog, open_audit_log
from queuegate_server.observe.calls import Calls
from queuegate_server.observe.lookups import Lookups
from queuegate_server.ops.status import Phase, Status
from queuegate_server.reload import Reloader
from queuegate_server.rpc.decisions import Decisions
from queuegate_server.rpc.interceptors import CallLimit
from queuegate_server.settings.model import Settings
from queuegate_server.settings.ops import host_port
from queuegate_server.transports.tcp import address_of, open_tcp

if TYPE_CHECKING:
    from queuegate_server.ops.app import OpsServer

_LOG = logging.getLogger("queuegate_server.operations")


class Operations:
    """What the server counts and records, and the port that shows it. Used from one event
    loop, which must be running.
    """

    def __init__(self, settings: Settings, *, worker: int | None = None) -> None:
        """Open the audit log and the port. One worker of several has an audit log of its own
        and no port. Raises CannotAudit and CannotListen.
        """
        listen = settings.ops.listen if worker is None else None
        self._socket = None if listen is None else open_tcp(*host_port(listen))
        self._audit: AuditLog | None = open_audit_log(
            settings.audit if worker is None else settings.audit.of_worker(worker)
        )
        self.calls = Calls()
        self.lookups = Lookups()
        self.limit = CallLimit(settings.limits.max_concurrent_calls)
        self.decisions = Decisions(
            self._audit, allowed=settings.audit.records == "all", wall=time.time
        )
        self._status: Status | None = None
        self._server: OpsServer | None = None

    @property
    def is_auditing(self) -> bool:
        """Whether there is an audit log."""
        return self._audit is not None

    async def start(self, engine: Engine, reloader: Reloader, sources: GroupSources) -> None:
        """Serve the port, if there is one."""
        status = self._status = Status(engine, reloader)
        if self._socket is None:
            return
        # Slow, and only for those who have the port.
        from queuegate_server.observe.metrics.registry import Sources, metrics  # noqa: PLC0415
        from queuegate_server.ops.app import OpsServer  # noqa: PLC0415

        running = {
            "version": version("queuegate"),
            "python": platform.python_version(),
            "grpc": grpc.__version__,
        }
        seen = Sources(
            engine=engine,
            reloads=reloader,
            calls=self.calls,
            in_work=self.limit,
            decided=self.decisions,
            lookups=self.lookups,
            resolvers=sources,
            audit=self._audit,
            is_ready=lambda: status.is_ready,
            version=running,
        )
        self._server = OpsServer(status, metrics(seen), running)
        address = address_of(self._socket)
        await self._server.start(self._socket)
        _LOG.info("operations port is open", extra={"address": address})

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
