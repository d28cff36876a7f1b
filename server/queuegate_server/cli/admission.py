"""`queuegate-server admission`: serves the admission webhook."""

import functools
import os
from pathlib import Path
from typing import Any, Final

import click

from queuegate.policy.acl import AclNames
from queuegate_server.cli.command import FILE, Failure
from queuegate_server.observe import logs
from queuegate_server.runtime.event_loop import run_in_loop
from queuegate_server.runtime.resources import TooFewResources
from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.callers import certificate_name
from queuegate_server.settings.listeners import HostPort, MalformedAddress, parse_host_port

_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_option: Final = functools.partial(click.option, show_default=True, show_envvar=True)


def _address(_: click.Context, __: click.Parameter, value: str) -> HostPort:
    try:
        return parse_host_port(value)
    except MalformedAddress as error:
        raise click.BadParameter(f"{value!r}: {error}") from None


def _names(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    names = set()
    for value in values:
        if not value.startswith(("spiffe://", "uri:", "dns:", "cn:")):
            raise click.BadParameter(f"{value!r}: write spiffe://…, uri:…, dns:… or cn:…")
        try:
            names.add(certificate_name(value))
        except ValueError as error:
            raise click.BadParameter(f"{value!r}: {error}") from None
    return frozenset(names)


@click.group(
    invoke_without_command=True, context_settings={"auto_envvar_prefix": "QUEUEGATE_ADMISSION"}
)
@click.pass_context
@_option(
    "--listen",
    default="0.0.0.0:8443",
    callback=_address,
    help="The HTTPS address of the webhook, as host:port.",
)
@_option(
    "--ops-listen",
    default="127.0.0.1:9465",
    callback=_address,
    help="The HTTP address of /livez, /readyz and /metrics, as host:port.",
)
@_option(
    "--tls-cert",
    type=FILE,
    help="The certificate, PEM; reloaded when it changes.",
)
@_option("--tls-key", type=FILE, help="The certificate's private key, PEM.")
@_option(
    "--client-ca-file",
    type=FILE,
    help="The CA that signs client certificates, PEM; reloaded when it changes. If set, "
    "every client must present a certificate, except on the health port.",
)
@_option(
    "--client-name",
    "client_names",
    multiple=True,
    callback=_names,
    help="A name to accept in client certificates: spiffe://…, uri:…, dns:… or cn:…. "
    "Repeatable. If omitted, any certificate signed by the CA is accepted.",
)
@_option(
    "--defaults",
    type=_FOLDER,
    help="The folder where the ConfigMap yunikorn-defaults is mounted.",
)
@_option(
    "--configs",
    type=_FOLDER,
    help="The folder where the ConfigMap yunikorn-configs is mounted; its keys take precedence.",
)
@_option(
    "--namespace-annotations/--no-namespace-annotations",
    default=False,
    show_default=False,
    help="Look up namespace annotations in the Kubernetes API. Off by default.",
)
@_option(
    "--api-server",
    default="https://kubernetes.default.svc",
    help="The URL of the Kubernetes API, for --namespace-annotations.",
)
@_option(
    "--service-account",
    type=_FOLDER,
    default="/var/run/secrets/kubernetes.io/serviceaccount",
    help="The folder with token and ca.crt, for --namespace-annotations.",
)
@_option(
    "--acl-names",
    type=click.Choice([names.value for names in AclNames]),
    default=AclNames.YUNIKORN.value,
    help="Which names the ACLs of a queues.yaml may list.",
)
@_option(
    "--drain-seconds",
    type=click.FloatRange(0, 600),
    default=0.0,
    help="How long to keep serving reviews after /readyz starts to fail.",
)
@_option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error", "critical"]),
    default="info",
    help="The minimum severity to log.",
)
@_option(
    "--log-format",
    type=click.Choice(["auto", "json", "console"]),
    default="auto",
    help="auto: console on a terminal, otherwise json.",
)
def admission(
    context: click.Context,
    /,
    *,
    defaults: Path | None,
    configs: Path | None,
    acl_names: str,
    log_level: str,
    log_format: str,
    **options: Any,
) -> None:
    """Serve the Kubernetes admission webhook: /mutate, /validate and /validate-conf.

    Records the creator of each pod or workload in the annotation yunikorn.apache.org/user.info,
    and denies requests that set another user there.

    Exit status: 0 stopped by a signal, 2 incorrect usage or configuration.
    """
    if context.invoked_subcommand is not None:
        return
    for option in ("tls_cert", "tls_key"):
        if options[option] is None:
            raise click.UsageError(f"Missing option '--{option.replace('_', '-')}'.")
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
