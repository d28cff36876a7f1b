"""Random YARN clusters."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from tests.support.oracles.applications import YarnCluster

_NAMES: Final = ["a", "b", "A", "q-1", "é", "x y", "root", "prod"]
ACLS: Final = [
    *[" ", " ", "bob", " g", "eve,carol ops", "~knox", "bob,~carol g", "*", " *", "bob *"],
    *["u g ops", "bob g, ops", "\n bob", "*,bob", "carol  g", "d d", " g ops", "bob\t", "é"],
]


@dataclass(frozen=True)
class RandomCluster:
    """Random queues with random ACLs."""

    format_name: str
    cluster: YarnCluster

    def path(self, text: str) -> str:
        """Return the full path of a queue; empty if several queues have its name."""
        queues = self.cluster.queues
        if self.format_name == "capacity-scheduler" and "." not in text and text != "root":
            matches = [path for path in queues if path.endswith(f".{text}")]
            if matches:
                return matches[0] if len(matches) == 1 else ""
        return text if text == "root" or text.startswith("root.") else f"root.{text}"

    def xml(self) -> str:
        """Return the file of the scheduler."""
        queues = self.cluster.queues
        if self.format_name == "fair-scheduler":
            return f"<allocations>{_fair('root', queues)}</allocations>"
        properties = {}
        for path, (submit, admin) in queues.items():
            key = f"yarn.scheduler.capacity.{path}."
            properties[f"{key}acl_submit_applications"] = submit
            properties[f"{key}acl_administer_queue"] = admin
            below = [last_name(other) for other in queues if _above(other) == path]
            if below:
                properties[f"{key}queues"] = ", ".join(below)
        return configuration(properties)

    def site(self) -> str:
        """Return the cluster's yarn-site.xml."""
        return configuration({"yarn.acl.enable": "true", "yarn.admin.acl": self.cluster.admins})


def configuration(properties: Mapping[str, str]) -> str:
    """Return properties as Hadoop's XML."""
    text = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    )
    return f"<configuration>{text}</configuration>"


def random_cluster(rng: random.Random, format_name: str, semantics: str) -> RandomCluster:
    """Return a cluster of up to 60 queues."""
    queues = {"root": (rng.choice(ACLS[:6]), rng.choice(ACLS[:6]))}
    while len(queues) < 60:
        path = f"{rng.choice([*queues])}.{rng.choice(_NAMES)}"
        if path.count(".") < 7:
            queues[path] = (rng.choice(ACLS), rng.choice(ACLS))
    admins = rng.choice([" ", " ", "eve", " ops", "~carol"])
    return RandomCluster(format_name, YarnCluster(queues, semantics, admins))


def _fair(path: str, queues: Mapping[str, tuple[str, str]]) -> str:
    submit, admin = queues[path]
    below = "".join(_fair(other, queues) for other in queues if _above(other) == path)
    return (
        f"<queue name={quoteattr(last_name(path))}><aclSubmitApps>{submit}</aclSubmitApps>"
        f"<aclAdministerApps>{admin}</aclAdministerApps>{below}</queue>"
    )


def _above(path: str) -> str:
    return path.rpartition(".")[0]


def last_name(path: str) -> str:
    return path.rpartition(".")[2]
