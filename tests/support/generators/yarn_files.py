"""Texts of the YARN schedulers' files."""

from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st

FAIR, CAPACITY = "fair-scheduler", "capacity-scheduler"
CLOSED = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"


def prop(name: str, value: str, more: str = "") -> str:
    return f"<property><name>{name}</name><value>{value}</value>{more}</property>"


def site(*, enabled: str = "true", admins: str = " ") -> tuple[bytes, str]:
    text = prop("yarn.acl.enable", enabled) + prop("yarn.admin.acl", escape(admins))
    return f"<configuration>{text}</configuration>".encode(), "yarn-site.xml"


NAMES = st.sampled_from(["a", "A", "b", "q-1", "é"])
ACLS = st.sampled_from(
    [" ", "*", "bob", " g", "bob g", "bob g x", "u,bob", " *", "~bob", "g  g", "\n bob", "bob\n"]
)
QUEUES: st.SearchStrategy[Any] = st.recursive(
    st.tuples(NAMES, ACLS, ACLS, st.just([])),
    lambda below: st.tuples(NAMES, ACLS, ACLS, st.lists(below, max_size=3)),
    max_leaves=8,
)


def fair_xml(queues: list[tuple], tag: str) -> str:  # type: ignore[type-arg]
    return "".join(
        f"<{tag} name={quoteattr(name)}><aclSubmitApps>{submit}</aclSubmitApps>"
        f"<aclAdministerApps>{admin}</aclAdministerApps>{fair_xml(below, tag)}</{tag}>"
        for name, submit, admin, below in queues
    )


def by_path(queues: list[tuple], above: str) -> dict[str, tuple[str, str]]:  # type: ignore[type-arg]
    texts = {}
    for name, submit, admin, below in queues:
        path = f"{above}.{name}"
        texts[path] = (submit, admin)
        texts |= by_path(below, path)
    return texts


def created(
    stated: dict[str, tuple[str, str]],
    queues: list[tuple],  # type: ignore[type-arg]
) -> dict[str, tuple[str, str]]:
    """Return the queues that the fair scheduler certainly creates: no leaves below other leaves."""
    declared = [*_declarations(queues, "root")]
    parents = {path for path, is_leaf in declared if not is_leaf}
    leaves = {path for path, is_leaf in declared if is_leaf}
    return {
        path: acls
        for path, acls in stated.items()
        if path in parents or not any(path.startswith(f"{leaf}.") for leaf in leaves)
    }


def _declarations(queues: list[tuple], above: str) -> Iterator[tuple[str, bool]]:  # type: ignore[type-arg]
    for name, _, _, below in queues:
        yield f"{above}.{name}", not below
        yield from _declarations(below, f"{above}.{name}")


def capacity_xml(queues: dict[str, tuple[str, str]]) -> str:
    text = ""
    for path, (submit, admin) in queues.items():
        key = f"yarn.scheduler.capacity.{path}"
        children = [other[len(path) + 1 :] for other in queues if other.rpartition(".")[0] == path]
        if children:
            text += prop(f"{key}.queues", " , ".join(children))
        text += prop(f"{key}.acl_submit_applications", submit)
        text += prop(f"{key}.acl_administer_queue", admin)
    return f"<configuration>{text}</configuration>"
