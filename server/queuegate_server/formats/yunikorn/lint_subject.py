"""What the lint rules look at."""

from dataclasses import dataclass, field

from queuegate.policy.acl import Acl, AclNames
from queuegate_server.formats.yaml_nodes import Scalar
from queuegate_server.formats.yunikorn.model import PartitionConfig, Queue


@dataclass(frozen=True, slots=True, eq=False)
class ListedAcl:
    """An ACL that stands in the document."""

    queue: Queue
    key: str
    """`submitacl` or `adminacl`."""
    scalar: Scalar
    acl: Acl
    """Empty also if the text is no ACL."""
    names: AclNames

    @property
    def has_groups(self) -> bool:
        """True if there is a blank, so that a list of groups follows."""
        return " " in self.scalar.text


@dataclass(slots=True, eq=False)
class Subject:
    """A document in the forms that the rules need."""

    lines: list[str]
    """The source text."""
    partitions: list[PartitionConfig]
    acls: list[ListedAcl] = field(default_factory=list)
    """All ACLs in the order of the queues."""

    def different_acls(self) -> list[ListedAcl]:
        """Return the first position of each ACL: aliases may repeat a long one very often."""
        first: dict[int, ListedAcl] = {}
        for listed in self.acls:
            # Equal texts of a partition share one ACL.
            first.setdefault(id(listed.acl), listed)
        return list(first.values())
