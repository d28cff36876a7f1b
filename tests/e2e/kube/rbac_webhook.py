"""An API server that authorizes by RBAC, and a webhook whose policy is the same RBAC."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.kube import custom_resources
from tests.e2e.kube.account import watcher_account
from tests.e2e.kube.cluster import ApiServer, running_cluster
from tests.e2e.kube.queue_checks import enforced_by, serving, write_settings
from tests.e2e.kube.rbac_grants import let_bob_create
from tests.e2e.kube.reviews import created


@contextmanager
def running_rbac_cluster(
    folder: Path,
    programs: tuple[str, str],
    namespaces: tuple[str, ...],
    queues: Mapping[str, Any],
    is_asked: Callable[[ApiServer], bool],
) -> Iterator[ApiServer]:
    """Run an API server in which bob may create everything, and which asks the webhook.

    `programs` are etcd and kube-apiserver; `queues` are the settings `admission.queues`.
    """
    with running_cluster(folder, *programs, {"authorization-mode": "RBAC"}) as cluster:
        account = watcher_account(cluster, folder)
        for name in namespaces:
            namespace = {"metadata": {"name": name}}
            created(cluster.ask("admin", "POST", "/api/v1/namespaces", namespace))
        custom_resources.define(cluster)
        let_bob_create(cluster)
        config, ca = write_settings(folder / "webhook", queues)
        follow_rbac(config, account.kubeconfig)
        with (
            serving(config, ca) as webhook,
            enforced_by(cluster, config, ca, webhook.address, is_asked),
        ):
            yield cluster


def follow_rbac(config: Path, kubeconfig: Path) -> None:
    """Replace the policy in a settings file by the RBAC of a cluster."""
    settings = yaml.safe_load(config.read_text())
    settings["policy"] = {"kubernetes": {"kubeconfig": str(kubeconfig)}}
    config.write_text(json.dumps(settings))
