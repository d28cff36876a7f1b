"""Hypothesis strategies for partitions of every kind, YuniKorn's and YARN's, with all name modes
and semantics, and for questions about them.
"""

from hypothesis import strategies as st

from queuegate.policy.acl import EMPTY, AclNames
from queuegate.policy.decision import Access
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, PartitionBuilder
from queuegate.policy.yarn_acl import Cluster, Semantics, parse_yarn

_YUNIKORN_ACLS = st.sampled_from(
    [
        *["", "", " ", "*", " *", "ann", "bob,cem dev", " dev,ops", "ann ops", "*,ann", "dan"],
        *["x:y", "u$ g.h", " g.h", "dev", " ann", "cem,dan,ann qa,dev"],
    ]
)
_YARN_ACLS = st.sampled_from(
    [
        *["", " ", " ", "*", " *", "ann", "bob,cem dev", " dev,ops", "ann ops", "*,ann"],
        *["~svc", "ann,~svc dev", "~hue,~svc", "ann  dev", "bob dev, ops", " qa  ops", "dev"],
    ]
)
_LEVELS = st.sampled_from(["a", "b", "c", "@recovery@"])
PATHS = st.lists(_LEVELS, max_size=4).map(lambda levels: ".".join(["root", *levels]))
USERS = st.sampled_from(["ann", "bob", "cem", "dan", "eve", "x:y", "u$", "*", "dev"])
GROUP_NAMES = ("dev", "ops", "qa", "g.h", "*", "ann", "other")
GROUPS = st.lists(st.sampled_from(GROUP_NAMES), max_size=3, unique=True)
REAL_USERS = st.sampled_from(["", "", "svc", "hue", "ann"])
ACCESS = st.sampled_from(list(Access))


@st.composite
def _trees(draw: st.DrawFn, acls: st.SearchStrategy[str]) -> dict[str, tuple[str, str]]:
    """Return queues with the ACLs for submission and administration, each after its parent."""
    whole = dict(draw(st.dictionaries(PATHS, st.tuples(acls, acls), max_size=8)))
    for path in [*whole]:
        levels = path.split(".")
        for depth in range(1, len(levels)):
            whole.setdefault(".".join(levels[:depth]), ("", ""))
    return dict(sorted(whole.items()))


@st.composite
def yunikorn_partitions(draw: st.DrawFn, names: AclNames | None = None) -> Partition:
    """Return a partition whose ACLs are parsed on first use."""
    names = names or draw(st.sampled_from(list(AclNames)))
    builder = PartitionBuilder("default", acl_names=names)
    tree = draw(_trees(_YUNIKORN_ACLS))
    builder.add(QueueAcls(path, submit, admin) for path, (submit, admin) in tree.items())
    return builder.build()


@st.composite
def yarn_partitions(draw: st.DrawFn) -> Partition:
    """Return a partition of the fair scheduler or of the capacity scheduler."""
    semantics = draw(st.sampled_from(list(Semantics)))
    is_fair = draw(st.booleans())
    cluster = Cluster(
        semantics,
        parse_yarn(draw(_YARN_ACLS), semantics) if draw(st.booleans()) else EMPTY,
        acls_enabled=draw(st.integers(0, 4)) > 0,
        checks_submission_always=is_fair,
        has_short_names=not is_fair,
    )
    builder = PartitionBuilder("default", cluster=cluster)
    tree = draw(_trees(_YARN_ACLS))
    builder.add(
        QueueAcls(path, parse_yarn(submit, semantics), parse_yarn(admin, semantics))
        for path, (submit, admin) in tree.items()
    )
    return builder.build()


PARTITIONS = st.one_of(yunikorn_partitions(), yarn_partitions())


@st.composite
def paths_in(draw: st.DrawFn, partition: Partition) -> str:
    """Return the path of a queue that may exist, even for a question with its short name."""
    text = draw(st.one_of(PATHS, _LEVELS, st.sampled_from(partition.paths)))
    return partition.canonical_path(text) or "root"
