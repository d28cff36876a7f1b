"""A cluster for each module."""

from collections.abc import Iterator

import pytest

from tests.e2e.kube.cluster import ApiServer, program, running_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    etcd, kube_apiserver = program("etcd"), program("kube-apiserver")
    if etcd is None or kube_apiserver is None:
        pytest.skip("no etcd and kube-apiserver here: `make kube-tools` builds them (Go, 15 min)")
    with running_cluster(tmp_path_factory.mktemp("cluster"), etcd, kube_apiserver) as api:
        yield api
