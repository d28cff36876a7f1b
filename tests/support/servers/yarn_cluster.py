"""A ResourceManager that asks queuegate, and queuegate with a policy other than YARN's own ACLs.

YARN's ACLs let only `local` submit to `root.a`, and only `carol` to `root.open`. So who was allowed
tells who decided.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from tests.support.atomic_files import replace
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.servers.resourcemanager.process import ResourceManager, running_resource_manager

SCHEDULERS: Final = ("capacity", "fair")
AUTHORIZER: Final = "io.queuegate.hadoop.QueuegateYarnAuthorizer"
MAPPING: Final = "io.queuegate.hadoop.QueuegateGroupsMapping"

Acls = Mapping[str, tuple[str, str]]
"""The ACLs to submit to and to administer each leaf."""

OF_QUEUEGATE: Final[Acls] = {"a": ("alice", "carol"), "b": (" ops", " "), "open": ("*", " ")}
OF_YARN: Final[Acls] = {"a": ("local", " "), "b": (" ", " "), "open": ("carol", " ")}
GROUPS: Final = {"alice": ["dev"], "bob": ["ops"], "carol": ["dev"], "local": ["dev"]}
GROUPS_OF_QUEUEGATE: Final = {
    "hadoop.security.group.mapping": MAPPING,
    "hadoop.security.groups.cache.secs": "1",
    "hadoop.security.groups.negative-cache.secs": "1",
    "hadoop.user.group.static.mapping.overrides": "yarn=yarn;livy=livy",
}
"""The properties of a core-site.xml with which Hadoop takes groups from queuegate."""

_CAPACITY: Final = "yarn.scheduler.capacity.root"
_MANAGER: Final = "yarn.resourcemanager"


def capacity(acls: Acls) -> dict[str, str]:
    """Return the properties of a capacity-scheduler.xml."""
    properties = {
        f"{_CAPACITY}.queues": ",".join(acls),
        f"{_CAPACITY}.acl_submit_applications": " ",
        f"{_CAPACITY}.acl_administer_queue": " ",
        "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    }
    for name, (submit, admin) in acls.items():
        properties |= {
            f"{_CAPACITY}.{name}.capacity": str(100 / len(acls)),
            f"{_CAPACITY}.{name}.acl_submit_applications": submit,
            f"{_CAPACITY}.{name}.acl_administer_queue": admin,
        }
    return properties


def fair(acls: Acls) -> str:
    """Return a fair-scheduler.xml."""
    closed = "<aclSubmitApps> </aclSubmitApps><aclAdministerApps> </aclAdministerApps>"
    queues = [
        f'<queue name="{name}"><aclSubmitApps>{escape(submit)}</aclSubmitApps>'
        f"<aclAdministerApps>{escape(admin)}</aclAdministerApps></queue>"
        for name, (submit, admin) in acls.items()
    ]
    return f'<allocations><queue name="root">{closed}{"".join(queues)}</queue></allocations>\n'


def scheduler_file(scheduler: str, acls: Acls) -> str:
    """Return the file of a scheduler."""
    if scheduler == "fair":
        return fair(acls)
    lines = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in capacity(acls).items()
    )
    return f"<configuration>{''.join(lines)}</configuration>\n"


class Cluster:
    """The folder, address and directory of a queuegate server, which can be started again."""

    def __init__(self, folder: Path, scheduler: str) -> None:
        self.scheduler = scheduler
        self.folder = folder
        self.port = free_port()
        self.policy = folder / "policy.xml"
        self.directory = ScriptedDirectory(folder)
        self.directory.reset({user: {"groups": groups} for user, groups in GROUPS.items()})
        self.policy.write_text(scheduler_file(scheduler, OF_QUEUEGATE))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def change(self, acls: Acls) -> None:
        """Replace the policy file."""
        replace(self.policy, scheduler_file(self.scheduler, acls))

    @contextmanager
    def queuegate(
        self,
        *,
        callers: Mapping[str, Any] | None = None,
        partition: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Iterator[RunningServer]:
        """Run the server. `callers` has the rights of local callers."""
        rights = {"roles": ["check", "read", "admin", "sync"], **(callers or {})}
        config = settings_file(
            self.folder,
            {
                "policy": {"path": str(self.policy)},
                "resolvers": {"corp": self.directory.resolver()},
                "partitions": {
                    "default": {"semantics": "hadoop", "resolver": "corp", **(partition or {})}
                },
                "callers": {"loopback": rights},
                **settings,
            },
        )
        with running_server(
            *("--config", config), listen=[self.address], environment=self.directory.environment
        ) as server:
            yield server

    @contextmanager
    def yarn(
        self,
        release: str,
        *,
        core: Mapping[str, str] | None = None,
        site: Mapping[str, str] | None = None,
        acls: Acls = OF_YARN,
        queues: Mapping[str, str] | None = None,
        name: str = "yarn",
        program: str = "resource-manager",
        main: str = "Harness",
        **keys: str,
    ) -> Iterator[ResourceManager]:
        """Run a ResourceManager that asks the server.

        `core` and `site` are properties of core-site.xml and yarn-site.xml, `queues` of
        capacity-scheduler.xml, and `keys` of queuegate.properties. Each that runs at the same time
        needs a name. `program` and `main` are as in `running_resource_manager`.
        """
        folder = self.folder / f"{name}-{release}"
        folder.mkdir(exist_ok=True)
        settings = {"address": self.address, "fallback": "yarn-acl", **keys}
        lines = [f"queuegate.{_KEYS.get(key, key)}={value}\n" for key, value in settings.items()]
        files: dict[str, Mapping[str, str] | str] = {
            "queuegate.properties": "".join(lines),
            "core-site.xml": {
                "hadoop.user.group.static.mapping.overrides": ";".join(
                    f"{user}={','.join(groups)}" for user, groups in {**GROUPS, **_STAFF}.items()
                ),
                "hadoop.tmp.dir": str(folder / "tmp"),
                "hadoop.proxyuser.livy.hosts": "*",
                "hadoop.proxyuser.livy.users": "*",
                **(core or {}),
            },
            "yarn-site.xml": {
                # By default, all ResourceManagers of an account write to one folder in /tmp.
                "yarn.node-attribute.fs-store.root-dir": (folder / "node-attribute").as_uri(),
                **self._yarn_site(),
                **(site or {}),
            },
            f"{self.scheduler}-scheduler.xml": (
                {**capacity(acls), **queues} if queues else scheduler_file(self.scheduler, acls)
            ),
        }
        with running_resource_manager(folder, release, files, program, main) as manager:
            yield manager

    def _yarn_site(self) -> dict[str, str]:
        name = self.scheduler.capitalize()
        package = "org.apache.hadoop.yarn.server.resourcemanager.scheduler"
        ports = ("", ".scheduler", ".resource-tracker", ".admin")
        return {
            "yarn.acl.enable": "true",
            "yarn.admin.acl": "yarn",
            "yarn.authorization-provider": AUTHORIZER,
            f"{_MANAGER}.scheduler.class": f"{package}.{self.scheduler}.{name}Scheduler",
            f"{_MANAGER}.webapp.address": f"127.0.0.1:{free_port()}",
            f"{_MANAGER}.hostname": "127.0.0.1",
            **{f"{_MANAGER}{port}.address": "127.0.0.1:0" for port in ports},
        }


@contextmanager
def stopped(server: RunningServer) -> Iterator[None]:
    """Stop a process with SIGSTOP for the duration of a block."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


_STAFF: Final = {"yarn": ["yarn"], "livy": ["livy"], "mallory": ["dev"]}
_KEYS: Final = {
    "start_timeout": "start-timeout",
    "group_timeout": "group-timeout",
    "lookup_timeout": "lookup-timeout",
    "token_file": "token-file",
    "tls_ca_file": "tls.ca-file",
}
