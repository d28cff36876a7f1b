"""A second evaluator of access to YARN and Spark applications, based on the tables in their
documentation: slow, obvious, and without any code of the product.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.support.oracles.yarn import YarnAclOracle, allowed, trim


class YarnCluster(NamedTuple):
    """A YARN cluster: both ACLs of each queue by full path, and `yarn-site.xml`."""

    queues: Mapping[str, tuple[str, str]]
    semantics: str
    admins: str = " "


class YarnApplication(NamedTuple):
    """A YARN application. A queue of "" is unknown to the scheduler."""

    queue: str
    owner: str
    view: str = ""
    modify: str = ""


def application_allowed(
    cluster: YarnCluster,
    app: YarnApplication,
    action: str,
    user: str,
    groups: Sequence[str],
    *,
    target: str = "",
    real_user: str = "",
) -> bool:
    """Return whether a user may take an action on an application while ACLs are enforced."""

    def listed(text: str) -> bool:
        return YarnAclOracle(text, cluster.semantics).admits(user, groups, real_user)

    def of_queue(path: str, access: str) -> bool:
        # The path of no queue has no levels, so only the cluster's administrators remain.
        return allowed(
            cluster.queues,
            path,
            access,
            user,
            groups,
            semantics=cluster.semantics,
            admins=cluster.admins,
            real_user=real_user,
        )

    owner = app.owner != "" and user == app.owner
    admin = listed(cluster.admins)
    kill = owner or listed(app.modify) or of_queue(app.queue, "admin") or admin
    exists = target in cluster.queues
    if cluster.semantics == "documented":
        both = all(admin or of_queue(path, "submit") for path in (app.queue, target))
        view = kill or listed(app.view)
        return {"modify": kill, "view": view, "view_logs": view, "move": exists and both}[action]
    logs = owner or listed(app.view) or admin
    return {
        "modify": kill,
        "view": logs or of_queue(app.queue, "admin"),
        "view_logs": logs,
        "move": kill and exists and of_queue(target, "submit"),
    }[action]


def spark_allowed(
    conf: Mapping[str, str],
    action: str,
    user: str,
    groups: Sequence[str],
    *,
    spark_user: str = "",
    process_user: str = "",
) -> bool | None:
    """Return whether Spark lets a user take an action, or None if it does not start with such
    properties.
    """
    switch = trim(conf.get("spark.acls.enable", "false")).lower()
    if switch not in {"true", "false"}:
        return None
    if switch == "false":
        return True
    kinds = {"view": "ui.view", "view_logs": "ui.view", "modify": "modify"}
    keys = ["spark.admin.acls"]
    users: list[str] = []
    owners: list[str] = []
    if action in kinds:
        keys.append(f"spark.{kinds[action]}.acls")
        # Spark would let everyone in if the user of a process were named `*`; queuegate does not.
        owners += [name for name in (spark_user, process_user) if name]
    listed_groups: list[str] = []
    for key in keys:
        users += names(conf.get(key, ""))
        listed_groups += names(conf.get(f"{key}.groups", ""))
    if "*" in users or user in users + owners or "*" in listed_groups:
        return True
    shell = "org.apache.spark.security.ShellBasedGroupsMappingProvider"
    if conf.get("spark.user.groups.mapping", shell) != shell:
        return False
    return any(group in listed_groups for group in groups)


def names(text: str) -> list[str]:
    """Split a Spark list."""
    return [name for name in map(trim, text.split(",")) if name]
