"""`queuegate-server admission certificate`: keeps the webhook's certificate in Kubernetes."""

import signal
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import click

from queuegate.cli.documented_command import DocumentedCommand
from queuegate_server.admission.kubernetes_api import ACCOUNT, URL, KubernetesApi
from queuegate_server.cli import SERVING_STATUSES
from queuegate_server.cli.kubernetes_options import object_name, service_option
from queuegate_server.observe import logs
from queuegate_server.runtime.event_loop import STOP_SIGNALS

_SECONDS: Final = 30.0
"""The time limit for each request, in seconds. It may be long, because nobody waits for the
response."""
_KINDS: Final = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")


def _configurations(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    for each in values:
        kind, _, name = each.partition("/")
        if kind not in _KINDS:
            raise click.BadParameter(f"{each!r}: write {_KINDS[0]}/NAME or {_KINDS[1]}/NAME")
        object_name(context, parameter, name)
    return values


@click.command(
    cls=DocumentedCommand,
    example="queuegate-server admission certificate \\\n"
    "  --configuration validatingwebhookconfigurations/queuegate-admission-queues",
    exit_statuses=SERVING_STATUSES,
)
@service_option
@click.option(
    "--secret",
    default="queuegate-admission-tls",
    show_default=True,
    callback=object_name,
    help="The Secret for the certificate, in the namespace of the Service. It must exist.",
)
@click.option(
    "--configuration",
    "configurations",
    metavar="KIND/NAME",
    multiple=True,
    required=True,
    callback=_configurations,
    help="A webhook configuration that must trust the certificate. The kind is "
    f"{_KINDS[0]} or {_KINDS[1]}. Repeatable.",
)
@click.option("--api-server", default=URL, show_default=True, help="The URL of the Kubernetes API.")
@click.option(
    "--service-account",
    type=click.Path(file_okay=False, path_type=Path),
    default=ACCOUNT,
    show_default=True,
    help="The folder that contains token and ca.crt.",
)
def certificate(
    *,
    service: tuple[str, str],
    secret: str,
    configurations: tuple[str, ...],
    api_server: str,
    service_account: Path,
) -> None:
    """Keep the webhook's certificate in a Secret, and renew it.

    Also makes the API server trust it. For clusters without cert-manager; the manifests in deploy/
    run this command in its own pod. It issues a certificate that is valid for a year, and a new one
    four months before it expires. It does not keep the CA's key. It writes the CA into the webhook
    configurations, and writes it again whenever they are reapplied.
    """
    from queuegate_server.admission.certificate.keeper import (  # noqa: PLC0415 - slow
        CertificateKeeper,
        CertificateObjects,
    )

    logs.configure("info", "json")
    namespace, name = service
    objects = CertificateObjects(namespace, name, secret, configurations)
    stop = threading.Event()
    for each in STOP_SIGNALS:
        signal.signal(each, lambda *_: stop.set())
    click.echo(f"keeping the certificate for {objects.host}")
    keeper = CertificateKeeper(
        KubernetesApi(api_server, service_account, _SECONDS), objects, partial(datetime.now, UTC)
    )
    keeper.run(stop)
