"""`queuegate-server admission`: serves the admission webhook."""

import functools
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from queuegate.cli.documented_command import DocumentedCommand
from queuegate_server.admission.kubernetes_api import ACCOUNT, URL
from queuegate_server.cli import SERVING_STATUSES
from queuegate_server.cli.admission_certificate import certificate
from queuegate_server.cli.admission_manifest import VARIABLES, manifest, settings_variables
from queuegate_server.cli.command import Failure, config_option, overrides_option
from queuegate_server.identity.resolver_types import types
from queuegate_server.observe import logs
from queuegate_server.runtime.event_loop import run_in_loop
from queuegate_server.runtime.resources import TooFewResources
from queuegate_server.runtime.tcp import CannotListen, UnusableFile
from queuegate_server.settings.listeners import parse_host_port
from queuegate_server.settings.load import SettingsError, load_settings
from queuegate_server.settings.model import Settings
from queuegate_server.transports.registry import set_grpc_environment

if TYPE_CHECKING:
    from queuegate_server.observe.tracing import Tracer

_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_OPS_LISTEN: Final = "127.0.0.1:9465"
"""The default of `ops.listen` for a webhook, which needs a port for probes."""
_option: Final = functools.partial(click.option, show_default=True, show_envvar=True)


class _AdmissionGroup(DocumentedCommand, click.Group):
    """The command, which also contains `manifest` and `certificate`."""


@click.group(
    cls=_AdmissionGroup,
    invoke_without_command=True,
    context_settings={"auto_envvar_prefix": VARIABLES},
    example="queuegate-server admission --config queuegate.yaml",
    exit_statuses=SERVING_STATUSES,
)
@click.pass_context
@config_option("The settings (queuegate.yaml); the admission section configures the webhook.")
@overrides_option
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
    default=URL,
    help="The URL of the Kubernetes API, for --namespace-annotations.",
)
@_option(
    "--service-account",
    type=_FOLDER,
    default=ACCOUNT,
    help="The folder that contains token and ca.crt, for --namespace-annotations.",
)
def admission(
    context: click.Context,
    /,
    *,
    config: Path | None,
    overrides: tuple[str, ...],
    defaults: Path | None,
    configs: Path | None,
    **options: Any,
) -> None:
    """Serve the Kubernetes admission webhook.

    Records the creator of each pod or workload in the annotation yunikorn.apache.org/user.info,
    and denies requests that set another user there (/mutate, /validate, /validate-conf).

    The only required settings name the webhook's certificate and key: --set
    admission.tls.certificate_file=… --set admission.tls.key_file=…. With more settings in the
    admission section, the webhook also checks the queues that objects name (/queues), and answers
    `kubectl auth can-i` (/authorize). SIGHUP reloads the settings.
    """
    if context.invoked_subcommand is not None:
        return
    read = partial(load_settings, config, settings_variables(os.environ), overrides)
    settings = _settings(read)
    if settings.admission.tls is None:
        raise Failure(
            "the webhook has no certificate: set admission.tls.certificate_file and"
            " admission.tls.key_file"
        )
    logs.configure(settings.log.level, settings.log.format)
    _serve(
        {
            **options,
            "listen": parse_host_port(settings.admission.listen),
            "ops_listen": parse_host_port(settings.ops.listen or _OPS_LISTEN),
            "tls": settings.admission.tls,
            "config_maps": tuple(folder for folder in (defaults, configs) if folder is not None),
            "policy_options": settings.format_options(settings.sources[0], None, types()),
            "drain_seconds": settings.drain.delay,
            "yunikorn_duties": settings.admission.yunikorn.enabled,
            "ops": settings.ops,
        },
        settings,
        read,
    )


def _serve(options: dict[str, Any], settings: Settings, read: Callable[[], Settings]) -> None:
    try:
        from queuegate_server.admission import process  # noqa: PLC0415 - needs the extra
    except ImportError as error:
        raise Failure(
            f"the webhook is not installed ({error.name}): pip install 'queuegate[admission]'"
        ) from None
    from queuegate_server.admission.annotations.yunikorn_settings import (  # noqa: PLC0415 - as above
        YuniKornSettingsError,
    )
    from queuegate_server.files.watcher import BadFile  # noqa: PLC0415 - as above
    from queuegate_server.observe.audit import CannotAudit  # noqa: PLC0415 - slow
    from queuegate_server.server.startup import CannotServe  # noqa: PLC0415 - slow

    webhook = process.AdmissionOptions(**options)
    if settings.admission.needs_policy or settings.tracing.enabled:
        from queuegate_server.server.webhook import serve_with_settings  # noqa: PLC0415 - slow

        main = serve_with_settings(
            webhook,
            os.environ,
            _announce,
            settings=settings,
            read_settings=read,
            tracer=_tracer(settings),
        )
    else:
        main = process.serve_admission(webhook, os.environ, _announce)
    try:
        run_in_loop(main)
    except YuniKornSettingsError as error:
        raise Failure("the settings are not valid\n" + "\n".join(error.faults)) from None
    except (BadFile, TooFewResources, UnusableFile) as error:
        raise Failure(str(error)) from None
    except CannotListen as error:
        raise Failure(f"cannot listen on {error}") from None
    except CannotAudit as error:
        raise Failure(f"cannot write the audit log {error}") from None
    except CannotServe as error:
        raise Failure(f"the policy cannot be served\n{error}") from None


def _tracer(settings: Settings) -> "Tracer | None":
    if not settings.tracing.enabled:
        return None
    set_grpc_environment(os.environ)
    from queuegate_server.observe.tracing import Tracer, TracingNotInstalled  # noqa: PLC0415 - slow

    try:
        return Tracer(settings.tracing)
    except TracingNotInstalled as error:
        raise Failure(str(error)) from None


def _settings(read: Callable[[], Settings]) -> Settings:
    try:
        return read()
    except SettingsError as error:
        raise Failure(f"the settings are not valid\n{error}") from None


admission.add_command(manifest)
admission.add_command(certificate)


def _announce(address: str, ops_url: str) -> None:
    click.echo(f"serving health on {ops_url}, reviews on https://{address}")
