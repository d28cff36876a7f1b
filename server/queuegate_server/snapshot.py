"""What is being served: a policy and where the groups of its users come from."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from queuegate.policy.names import DEFAULT_PARTITION
from queuegate.policy.tree import Partition, Policy
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.identity.group_resolver import GroupResolver


class UnknownPartition(Exception):
    """The policy has no partition of that name."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        """Keep the name asked for and the names that exist."""
        super().__init__(name)
        self.name = name
        self.known = tuple(sorted(known))


@dataclass(frozen=True, slots=True)
class Served:
    """A partition that is being served: its queues and the source of its groups."""

    partition: Partition
    groups: GroupResolver
    trust_provided_groups: bool
    spark_defaults: Mapping[str, str] = field(default_factory=dict)
    """Properties of the partition's applications of Spark, beneath those of a question."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Snapshot:
    """Everything that decides, swapped as a whole. Compare by identity."""

    policy: Policy
    served: Mapping[str, Served]
    loaded_at: float
    """Wall-clock seconds."""
    warnings: tuple[Diagnostic, ...] = ()

    def find(self, partition: str) -> Served:
        """Return the partition of a requested name; raise UnknownPartition."""
        served = self.served.get(partition or DEFAULT_PARTITION)
        if served is not None:
            return served
        found = self.policy.partition(partition)
        if found is None:
            raise UnknownPartition(partition, self.served)
        return self.served[found.name]
