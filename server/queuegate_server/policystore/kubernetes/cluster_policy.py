"""A cluster's RBAC and queues as one policy, which follows every change.

Changes are gathered while earlier ones are compiled and served. The policy counts as current as of
a given time only once all changes reported before that time are served.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from queuegate_server.formats.kubernetes_rbac.compiler import ObjectChanges, RbacCompiler
from queuegate_server.formats.kubernetes_rbac.grants import (
    MAX_NAMESPACE_GRANTS,
    RbacOptions,
    bindings_of,
)
from queuegate_server.policy_age import WARN_SECONDS, PolicyAge
from queuegate_server.policystore.kubernetes.account import Account
from queuegate_server.policystore.kubernetes.api_client import ApiClient
from queuegate_server.policystore.kubernetes.decoding import Entry, EntryKey
from queuegate_server.policystore.kubernetes.resource_watch import (
    QUEUE_RESOURCES,
    RBAC_RESOURCES,
    ResourceWatch,
)
from queuegate_server.runtime import pauses
from queuegate_server.runtime.pacing import beats, run_with_pauses

_LOG = logging.getLogger("queuegate_server.policystore.kubernetes")
GATHER_SECONDS: Final = 0.05
"""The minimum time between serving one change and serving the next."""

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that, unlike the monotonic clock, runs while the machine is suspended."""

Publish = Callable[[], Awaitable[bool]]
"""Serves the policy's current partition, and returns whether it is served."""


def boottime() -> float:
    """Return monotonic seconds, which also pass while the machine is suspended."""
    return time.clock_gettime(_CLOCK)


class ClusterPolicy:
    """Follows one cluster. `run` must be running for it to have a partition."""

    def __init__(
        self,
        account: Account,
        options: RbacOptions,
        max_age: float,
        clock: Callable[[], float] = boottime,
    ) -> None:
        """Create a policy that has not been read yet.

        Args:
            account: The API server's address, and the account used to call it.
            options: The options for reading RBAC.
            max_age: How long the policy may be used without a sign of life, in seconds.
            clock: A clock like `boottime`.
        """
        self.name: Final = account.name
        self.age: Final = PolicyAge(account.name, clock, max_age)
        self._options = options
        self._compiler = RbacCompiler(options)
        self._client = ApiClient(account)
        self._pending = ObjectChanges()
        self._wake = asyncio.Event()
        self.was_asked: Final = asyncio.Event()
        """Set once all RBAC and queues have been requested, whether or not they could be read."""
        self.ready: Final = asyncio.Event()
        """Set once all RBAC has been read."""
        self._left_out: frozenset[str] = frozenset()
        self.partition = self._compiler.partition
        """The partition, as of the last change that was compiled."""
        self.checksum = ""
        """Identifies the partition; the same on all replicas."""
        self.watches: Final = [
            ResourceWatch(resource, self._client, clock, self._note_change, self._wake.set)
            for resource in (*RBAC_RESOURCES, *QUEUE_RESOURCES)
        ]
        self._rbac = [each for each in self.watches if each.resource in RBAC_RESOURCES]

    @property
    def faults(self) -> Iterator[str]:
        """Why objects cannot be followed now, by resource."""
        for each in self.watches:
            if each.fault:
                yield f"{each.resource.name}.{each.resource.group}: {each.fault}"

    @property
    def left_out(self) -> int:
        """The number of namespaces and objects that grant nothing, because they contain too many
        grants.
        """
        return len(self._left_out) + sum(len(each.oversized) for each in self.watches)

    async def read(self) -> None:
        """Wait until all RBAC has been read, or cannot be read for now (see `faults`)."""
        await self.was_asked.wait()
        if all(each.alive_at > float("-inf") for each in self._rbac):
            await self.ready.wait()

    async def run(self, publish: Publish) -> None:
        """Follow the cluster until cancelled."""
        self._client.open()
        try:
            async with asyncio.TaskGroup() as group:
                for each in self.watches:
                    group.create_task(each.run())
                group.create_task(self._report_age())
                await self._compile(publish)
        finally:
            await self._client.close()

    async def _compile(self, publish: Publish) -> None:
        """Compile and serve what has changed, until cancelled."""
        served = None
        failures = 0
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not all(each.was_asked for each in self.watches):
                continue
            self.was_asked.set()
            current_at = min(each.alive_at for each in self._rbac)
            if current_at == float("-inf"):
                continue
            changes, self._pending = self._pending, ObjectChanges()
            try:
                await run_with_pauses(self._compiler.apply(changes))
            except Exception as error:
                failures += 1
                _LOG.error("RBAC could not be compiled, and will be compiled again", exc_info=error)
                self._start_again()
                await asyncio.sleep(pauses.API_SERVER.after(failures))
                continue
            self.partition, self.checksum = self._compiler.partition, self._compiler.digest
            self._report_left_out()
            if not self.ready.is_set():
                # The first load serves it.
                served = self.partition
                self.age.confirm(current_at)
                self.ready.set()
                continue
            if self.partition is not served:
                if not await publish():
                    failures += 1
                    await asyncio.sleep(pauses.API_SERVER.after(failures))
                    self._wake.set()
                    continue
                served = self.partition
                await asyncio.sleep(GATHER_SECONDS)
            failures = 0
            self.age.confirm(current_at)

    def _note_change(self, watch: ResourceWatch, key: EntryKey, entry: Entry | None) -> None:
        table: Any
        if watch.resource.queue is not None:
            table = self._pending.queues
        elif watch.resource.name.endswith("roles"):
            table = self._pending.roles
        else:
            table = self._pending.bindings
        table[key] = entry
        self._wake.set()

    def _start_again(self) -> None:
        """Compile all objects again at the next opportunity."""
        self._compiler = RbacCompiler(self._options)
        self._pending = ObjectChanges()
        for watch in self.watches:
            for key, each in watch.objects.items():
                self._note_change(watch, key, each.entry)

    def _report_left_out(self) -> None:
        for namespace in self._compiler.left_out - self._left_out:
            limit = MAX_NAMESPACE_GRANTS
            message = "%s have more than %d pairs of a subject and a queue, so none of them counts"
            _LOG.warning(message, bindings_of(namespace), limit)
        self._left_out = self._compiler.left_out

    async def _report_age(self) -> None:
        """Log that the policy is old, or too old, once each."""
        reported = 0
        async for _ in beats():
            seconds = self.age.seconds
            if not self.ready.is_set():
                continue
            level = (seconds > WARN_SECONDS) + self.age.is_too_old
            if level > reported:
                message = (
                    "RBAC may have changed, and nothing is decided with it any more"
                    if self.age.is_too_old
                    else "RBAC may have changed: there is no sign of life from the API server"
                )
                fields = {"seconds": round(seconds), "errors": [*self.faults]}
                _LOG.log(logging.ERROR if level > 1 else logging.WARNING, message, extra=fields)
            elif reported and not level:
                _LOG.info("RBAC is followed again")
            reported = level
