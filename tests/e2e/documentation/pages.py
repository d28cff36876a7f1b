"""The pages of the documentation, and what their blocks need.

A page that needs nothing is not here. An entry has the environments of the page, and the number of
its blocks that are marked as not run. Or it has the module that runs the page in its own way, and
the languages of all blocks in their order: a block that is added needs a look at the module.
"""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.e2e.documentation import directories, environments, on_call
from tests.e2e.documentation.environments import Environment
from tests.e2e.documentation.reader import CHECKOUT, Reader
from tests.support.documents import Block, fenced_blocks


@dataclass(frozen=True, slots=True)
class Page:
    environments: tuple[Environment, ...] = ()
    not_run: int = 0
    module: str = ""
    """Relative to tests/."""
    blocks: str = ""


_ALERTS: Final = {
    "queuegate-breaker-open.md": (on_call.in_an_outage,),
    "queuegate-directory-server-fails.md": (
        directories.openldap,
        on_call.with_directory,
    ),
    "queuegate-reload-failed.md": (on_call.after_a_mistake,),
    "queuegate-webhook-certificate-expires.md": (on_call.webhook,),
    "queuegate-webhook-down.md": (on_call.webhook,),
    "queuegate-webhook-errors.md": (on_call.webhook,),
    "queuegate-webhook-reload-failed.md": (on_call.webhook,),
    "queuegate-workers-missing.md": (on_call.with_workers,),
    "queuegate-workers-replaced.md": (on_call.with_workers,),
}

PAGES: Final = {
    "README.md": Page(
        module="e2e/documentation/test_readme.py", not_run=1, blocks="console python go sh"
    ),
    "docs/explanation/groups-and-caches.md": Page((environments.served,)),
    "docs/how-to/active-directory.md": Page((directories.active_directory,)),
    "docs/how-to/admission-webhook.md": Page(
        module="e2e/documentation/test_kubernetes.py", not_run=4, blocks="yaml yaml yaml"
    ),
    "docs/how-to/ask-over-http.md": Page(not_run=3),
    "docs/how-to/decide-in-the-shim.md": Page((environments.go,)),
    "docs/how-to/deploy-fleet.md": Page(
        module="e2e/documentation/test_kubernetes.py", not_run=6, blocks="yaml yaml yaml yaml"
    ),
    "docs/how-to/deploy-sidecar.md": Page(
        module="e2e/documentation/test_kubernetes.py",
        not_run=4,
        blocks="yaml yaml sh sh yaml yaml yaml",
    ),
    "docs/how-to/freeipa.md": Page((directories.freeipa,), not_run=4),
    "docs/how-to/generated-stubs.md": Page(
        module="e2e/documentation/test_languages.py", blocks="sh sh console sh"
    ),
    "docs/how-to/give-hadoop-groups.md": Page(not_run=2),
    "docs/how-to/go-shim.md": Page(
        module="e2e/documentation/test_go_shim.py", blocks="sh go console go go go console"
    ),
    "docs/how-to/helm.md": Page(
        module="e2e/deploy/test_helm.py",
        blocks="sh yaml sh yaml yaml sh yaml yaml yaml yaml sh yaml yaml yaml",
    ),
    "docs/how-to/install.md": Page(
        module="e2e/packaging/test_install_page.py", not_run=4, blocks="sh console"
    ),
    "docs/how-to/introduce-queue-checks.md": Page(not_run=4),
    "docs/how-to/java-client.md": Page(
        module="e2e/documentation/test_java_gate.py", blocks="sh java"
    ),
    "docs/how-to/kerberos.md": Page((directories.kerberos,), not_run=3),
    "docs/how-to/entra.md": Page((directories.entra,), not_run=3),
    "docs/how-to/keycloak.md": Page((directories.keycloak,), not_run=1),
    "docs/how-to/ldap.md": Page((directories.openldap,), not_run=4),
    "docs/how-to/kubectl-auth-can-i.md": Page(
        module="e2e/kube/test_can_i.py", not_run=1, blocks="yaml yaml yaml text"
    ),
    "docs/how-to/kubectl-plugin.md": Page(
        module="e2e/kube/test_kubectl_plugin.py", not_run=1, blocks="console"
    ),
    "docs/how-to/load-test.md": Page(
        module="e2e/documentation/test_load_test.py",
        blocks="sh console console console sh sh sh sh sh sh",
    ),
    "docs/how-to/monitor.md": Page(not_run=1),
    "docs/how-to/queue-access-kai-volcano.md": Page(not_run=2),
    "docs/how-to/queue-access-kueue.md": Page(not_run=5),
    "docs/how-to/queue-access-operators.md": Page(
        module="e2e/kube/test_operators_page.py",
        not_run=1,
        blocks="yaml yaml console yaml yaml yaml yaml console yaml yaml yaml console yaml console"
        " yaml yaml yaml yaml console",
    ),
    "docs/how-to/okta.md": Page((directories.okta,)),
    "docs/how-to/run-a-fleet.md": Page((directories.openldap, directories.redis), not_run=1),
    "docs/how-to/several-resolvers.md": Page((directories.openldap,)),
    "docs/how-to/systemd.md": Page(not_run=3),
    "docs/how-to/tls-and-callers.md": Page(not_run=1),
    "docs/how-to/trace.md": Page(not_run=1),
    "docs/how-to/trino-groups.md": Page(not_run=2),
    "docs/how-to/upgrade.md": Page(not_run=2),
    "docs/how-to/use-rbac-for-queues.md": Page(not_run=4),
    "docs/how-to/use-the-console.md": Page(not_run=1),
    "docs/how-to/webhook-beside-yunikorn.md": Page(
        module="e2e/documentation/test_kubernetes.py",
        not_run=1,
        blocks="yaml yaml yaml sh yaml",
    ),
    "docs/how-to/who-can.md": Page((directories.openldap,)),
    "docs/how-to/why-denied.md": Page(not_run=2),
    "docs/how-to/write-a-resolver.md": Page((directories.people,)),
    "docs/how-to/yarn-asks-queuegate.md": Page(not_run=3),
    "docs/how-to/yunikorn.md": Page(
        module="e2e/yunikorn/test_scheduler.py", blocks="sh sh sh console"
    ),
    "docs/reference/hadoop.md": Page(not_run=2),
    "docs/reference/ldap-presets.md": Page(
        module="e2e/documentation/test_ldap_presets.py", blocks="yaml"
    ),
    "docs/reference/python.md": Page((environments.python_api,)),
    "docs/reference/queue-checks.md": Page(not_run=1),
    "docs/tutorials/first-decision.md": Page(not_run=1),
    "docs/tutorials/kueue.md": Page(
        module="e2e/kube/test_kueue_tutorial.py",
        not_run=7,
        blocks="yaml sh yaml console sh console sh console sh console console",
    ),
    "docs/tutorials/shim-go.md": Page((environments.go,)),
    "docs/tutorials/yunikorn-kubernetes.md": Page(not_run=10),
    **{
        f"docs/runbook/{path.name}": Page(
            _ALERTS.get(path.name, (on_call.at_work,)), not_run=3 * (path.name == "index.md")
        )
        for path in (CHECKOUT / "docs/runbook").iterdir()
    },
}


_LARGEST_SECRET: Final = 1 << 16
_NAME_OF_A_SECRET: Final = re.compile(r"(token|secret|password|\.key)$")


def page_names() -> list[str]:
    """Return the names of all pages, relative to the checkout."""
    found = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
    return [str(path.relative_to(CHECKOUT)) for path in found]


def how_to(*names: str) -> tuple[str, ...]:
    return tuple(f"docs/how-to/{name}.md" for name in names)


ABOUT_GROUPS: Final = how_to(
    *(
        "active-directory",
        "entra",
        "freeipa",
        "hadoop-groups",
        "kerberos",
        "keycloak",
        "ldap",
        "okta",
        "several-resolvers",
        "who-can",
    ),
    "write-a-resolver",
)
ABOUT_POLICIES: Final = how_to(
    "prove-a-policy",
    "serve-yarn",
    "test-policies",
    "why-denied",
    "who-gains-by-a-change",
    "write-acls",
    "yarn-to-yunikorn",
)
"""Both have modules of their own: one process follows the pages of a module."""


def pages_of_reader(*places: str, but: Sequence[str] = ()) -> list[str]:
    """Return the pages that have blocks which no module of their own runs.

    Args:
        places: Folders, or single pages.
        but: Pages to leave out.

    """
    return [
        name
        for name in page_names()
        if any(Path(name).is_relative_to(place) for place in places)
        and name not in but
        and not PAGES.get(name, Page()).module
        and any(not block.not_run for block in blocks_of(name))
    ]


def blocks_of(name: str) -> list[Block]:
    return fenced_blocks((CHECKOUT / name).read_text())


def follow(name: str) -> None:
    """Follow a page in its environments."""
    # A short path: those of Unix sockets may have 107 characters.
    with TemporaryDirectory(prefix="page-") as folder, ExitStack() as stack:
        reader = Reader(Path(folder))
        for environment in PAGES.get(name, Page()).environments:
            stack.enter_context(environment(reader))
        before = set(readable_secrets(reader.folder))
        reader.follow(blocks_of(name))
        readable = [each for each in readable_secrets(reader.folder) if each not in before]
        assert not readable, f"the page lets others read {readable}"


def readable_secrets(folder: Path) -> list[str]:
    """Return the files with keys, tokens and secrets that other accounts may read."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and path.stat().st_mode & 0o077
        and path.stat().st_size < _LARGEST_SECRET
        and (_NAME_OF_A_SECRET.search(path.name) or b"PRIVATE KEY-----" in path.read_bytes())
    ]
