"""A second reader of Hadoop's configuration files and allocation files: the standard library's XML
parser, recursion, and the rules in documentation order.
"""

from xml.etree import ElementTree as ET

from tests.support.oracles.yarn import trim

Queues = dict[str, dict[str, str]]

_QUEUE_TAGS = ("ueue", "eue", "ue", "e", "queue", "pool")
"""The elements that declare a queue; only the last two do at the top."""


class LoadError(Exception):
    """Raised for a file that does not load."""


def properties(*texts: str | bytes) -> dict[str, str]:
    """Return the settings of `<configuration>` documents. Later ones override earlier ones."""
    values: dict[str, str] = {}
    final: set[str] = set()
    parsed = [ET.fromstring(text) for text in texts]  # noqa: S314 - the test's own texts
    for element in (one for top in parsed for one in top.iter("property")):
        name = element.get("name", "")
        value = element.get("value")
        is_final = element.get("final") == "true"
        for child in element:
            said = child.text or ""
            if child.tag == "name" and said:
                name = trim(said)
            elif child.tag == "value" and said:
                value = said
            elif child.tag == "final":
                is_final = said == "true"
        if name and value is not None and name not in final:
            values[name] = value
        if name and is_final:
            final.add(name)
    return values


def capacity_queues(text: str | bytes) -> dict[str, tuple[str, str]]:
    """Return the texts of both ACLs of each queue in a capacity-scheduler.xml, with a space for
    unset ones. Values must not contain variables.
    """
    stated = properties(text)
    queues: dict[str, tuple[str, str]] = {}

    def take(path: str) -> None:
        prefix = f"yarn.scheduler.capacity.{path}."
        if path not in queues:
            submit, admin = ("acl_submit_applications", "acl_administer_queue")
            queues[path] = (stated.get(prefix + submit, " "), stated.get(prefix + admin, " "))
            for name in map(trim, stated.get(prefix + "queues", "").split(",")):
                if name:
                    take(f"{path}.{name}")

    take("root")
    return queues


def allocations(text: str | bytes) -> Queues:
    """Return the ACL texts of each queue of an allocation file. Raises LoadError.

    Queues that Hadoop may discard are left out: leaves below a queue that is declared as a leaf,
    and everything below such a queue in `root.default`.
    """
    parsed = ET.fromstring(text)  # noqa: S314 - the test's own text
    top = [one for one in parsed if one.tag in _QUEUE_TAGS[-2:]]
    roots = [one for one in top if (one.get("name") or "").lower() == "root"]
    queues: Queues = {"root": {}}
    leaves: set[str] = set()
    parents: set[str] = set()
    if roots and (len(top) > 1 or roots[0].get("name") != "root"):
        raise LoadError
    for one in top:
        _take(one, "root" if roots else f"root.{_name(one)}", queues, leaves, parents)
    return {
        path: acls
        for path, acls in queues.items()
        if not any(path.startswith(f"{leaf}.") for leaf in leaves - {"root"})
        or (path in parents and not path.startswith("root.default."))
    }


def _take(
    element: ET.Element, path: str, queues: Queues, leaves: set[str], parents: set[str]
) -> None:
    acls = queues.setdefault(path, {})
    below = [child for child in element if child.tag in _QUEUE_TAGS]
    reserved = element.find("reservation") is not None
    if reserved and (below or element.get("type") == "parent"):
        raise LoadError
    is_parent = below or reserved or element.get("type") == "parent"
    (parents if is_parent else leaves).add(path)
    for child in element:
        if child.tag in {"aclSubmitApps", "aclAdministerApps"}:
            if not child.text:
                raise LoadError
            acls[child.tag] = child.text
        elif child.tag in _QUEUE_TAGS:
            _take(child, f"{path}.{_name(child)}", queues, leaves, parents)


def _name(element: ET.Element) -> str:
    name = (element.get("name") or "").strip()
    if not name or "." in name:
        raise LoadError
    return name
