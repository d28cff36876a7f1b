"""The engine for callers whose groups are not believed."""

from collections.abc import Callable
from dataclasses import replace

from queuegate_server.engine import Engine
from queuegate_server.snapshot import Snapshot


class IgnoringGroups(Engine):
    """Decides as another engine does, as if each partition said `trust_provided_groups: false`.

    Its snapshots are others than those of that engine, so no answer kept for one of them
    can be taken for the other.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        """Take the engine, and its clock."""
        super().__init__(clock)
        self._engine = engine
        self._made_of: Snapshot | None = None
        self._made: Snapshot | None = None
        engine.when_replaced(self._forget)

    def when_replaced(self, forget: Callable[[], None]) -> None:
        """Call this each time the other engine serves another snapshot."""
        self._engine.when_replaced(forget)

    def _forget(self) -> None:
        self._made = self._made_of = None

    @property
    def snapshot(self) -> Snapshot:
        """What is being served, without trust; raises NotReady before the first policy."""
        original = self._engine.snapshot
        if self._made is None or self._made_of is not original:
            served = {
                name: replace(partition, trust_provided_groups=False)
                for name, partition in original.served.items()
            }
            self._made = replace(original, served=served)
            self._made_of = original
        return self._made
