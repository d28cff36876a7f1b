"""`queuegate-server admission`."""

import os
from pathlib import Path
from typing import Any

import click

from queuegate.policy.acl import AclNames
from queuegate_server.cli.command import FILE, Failure
from queuegate_server.observe import logs
from queuegate_server.runtime.event_loop import run_in_loop
from queuegate_server.runtime.resources import TooFewResources
from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.listeners import HostPort, MalformedAddress, parse_host_port

_FOLDER = click.Path(file_okay=False, path_type=Path)


def _address(_: click.Context, __: click.Parameter, value: str) -> HostPort:
    try:
        return parse_host_port(value)
    except MalformedAddress as error:
        raise click.BadParameter(f"{value!r}: {error}") from None


def _names(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    for value in values:
        if not value.startswith(("spiffe://", "uri:", "dns:", "cn:")):
            raise click.BadParameter(f"{value!r}: write spiffe://…, uri:…, dns:… or cn:…")
    return frozenset(value.lower() if value.startswith("dns:") else value for value in values)


@click.command(context_settings={"auto_envvar_prefix": "QUEUEGATE_ADMISSION"})
@click.option(
    "--listen",
    default="0.0.0.0:8443",
    show_default=True,
    callback=_address,
    help="host:port of the webhook, HTTPS.",
)
@click.option(
    "--ops-listen",
    default="127.0.0.1:9465",
    show_default=True,
    callback=_address,
    help="host:port of /livez, /readyz and /metrics, HTTP.",
)
@click.option(
    "--tls-cert",
    type=FILE,
    required=True,
    help="The certificate, PEM; reloaded when it changes.",
)
@click.option("--tls-key", type=FILE, required=True, help="Its key, PEM.")
@click.option(
    "--client-ca-file",
    type=FILE,
    help="The CA that signs client certificates, PEM; reloaded when it changes. If set, "
    "every client must present a certificate, except on the health port.",
)
@click.option(
    "--client-name",
    "client_names",
    multiple=True,
    callback=_names,
    help="A name to accept in client certificates: spiffe://…, uri:…, dns:… or cn:…. "
    "Repeatable. If omitted, any certificate of the authority is accepted.",
)
@click.option(
    "--defaults",
    type=_FOLDER,
    help="The folder where the ConfigMap yunikorn-defaults is mounted.",
)
@click.option(
    "--configs",
    type=_FOLDER,
    help="The folder where the ConfigMap yunikorn-configs is mounted; its keys take precedence.",
)
@click.option(
    "--namespace-annotations/--no-namespace-annotations",
    default=False,
    help="Look up namespace annotations in the Kubernetes API. Off by default.",
)
@click.option(
    "--api-server",
    default="https://kubernetes.default.svc",
    show_default=True,
    help="The URL of the Kubernetes API, for --namespace-annotations.",
)
@click.option(
    "--service-account",
    type=_FOLDER,
    default="/var/run/secrets/kubernetes.io/serviceaccount",
    show_default=True,
    help="The folder with token and ca.crt, for --namespace-annotations.",
)
@click.option(
    "--acl-names",
    type=click.Choice([names.value for names in AclNames]),
    default=AclNames.YUNIKORN.value,
    show_default=True,
    help="Which names the ACLs of a queues.yaml may list.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0, 600),
    default=0.0,
    show_default=True,
    help="How long to keep answering reviews after /readyz starts to fail.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error", "critical"]),
    default="info",
    show_default=True,
    help="The minimum severity to log.",
)
@click.option(
    "--log-format",
    type=click.Choice(["auto", "json", "console"]),
    default="auto",
    show_default=True,
    help="auto: console on a terminal, otherwise json.",
)
def admission(
    *,
    defaults: Path | None,
    configs: Path | None,
    acl_names: str,
    log_level: str,
    log_format: str,
    **options: Any,
) -> None:
    """Serve the Kubernetes admission webhook: /mutate, /validate and /validate-conf.

    Records who creates a pod or workload in the annotation yunikorn.apache.org/user.info, and
    denies requests that set another name there.

    Exit status: 0 stopped by a signal, 2 wrong usage or configuration.
    """
    try:
        from queuegate_server.admission import server  # noqa: PLC0415 - needs the extra
    except ImportError as error:
        raise Failure(
            f"the webhook is not installed ({error.name}): pip install 'queuegate[admission]'"
        ) from None
    from queuegate_server.admission.settings import AdmissionSettingsError  # noqa: PLC0415 - as above
    from queuegate_server.files.watcher import BadFile  # noqa: PLC0415 - as above

    if options["client_names"] and options["client_ca_file"] is None:
        raise Failure("--client-name needs --client-ca-file, which verifies certificates")
    logs.configure(log_level, log_format)
    config_maps = tuple(folder for folder in (defaults, configs) if folder is not None)
    admission_options = server.AdmissionOptions(
        config_maps=config_maps, acl_names=AclNames(acl_names), **options
    )
    try:
        run_in_loop(server.serve_admission(admission_options, os.environ, _announce))
    except AdmissionSettingsError as error:
        raise Failure("the settings are not valid\n" + "\n".join(error.faults)) from None
    except (BadFile, TooFewResources) as error:
        raise Failure(str(error)) from None
    except CannotListen as error:
        raise Failure(f"cannot listen on {error}") from None


def _announce(address: str, ops_address: str) -> None:
    click.echo(f"serving health on http://{ops_address}, reviews on https://{address}")
