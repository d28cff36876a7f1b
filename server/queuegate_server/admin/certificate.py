"""The operations port's certificate."""

from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.files.watcher import BadFile
from queuegate_server.runtime.tcp import UnusableFile
from queuegate_server.settings.observability import Ops


def ops_certificate(ops: Ops) -> CertificateReloader | None:
    """Load the operations port's certificate, if any. Raises UnusableFile."""
    tls = ops.tls
    if tls is None:
        return None
    files = (tls.certificate_file, tls.key_file, tls.client_ca_file)
    try:
        return CertificateReloader(*files, listener=ops.listen or "", requires_client=False)
    except BadFile as error:
        raise UnusableFile(f"ops.tls: {error}") from None
