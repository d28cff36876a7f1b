"""A reader of a page who has kubectl and is the administrator of a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.e2e.documentation.reader import Reader
from tests.e2e.kube.cluster import BUILT, ApiServer


@contextmanager
def reader_with_kubectl(cluster: ApiServer) -> Iterator[Reader]:
    """Yield a reader in a folder like a checkout."""
    with TemporaryDirectory(prefix="page-") as folder:
        reader = Reader(Path(folder))
        config = Path(folder, "kubeconfig")
        config.write_text(cluster.kubeconfig())
        config.chmod(0o600)
        reader.variables["KUBECONFIG"] = str(config)
        reader.variables["PATH"] += f":{BUILT.absolute()}"
        yield reader
