"""`queuegate-server admission manifest`: prints the webhook configurations for the API server."""

import base64
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from queuegate.cli.documented_command import DocumentedCommand
from queuegate_server.cli import EXIT_FAILURE
from queuegate_server.cli.command import (
    FILE,
    Failure,
    config_option,
    overrides_option,
    read_or_fail,
)
from queuegate_server.cli.kubernetes_options import object_name, service_option
from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.settings.load import PREFIX, SettingsError, load_with_origins

if TYPE_CHECKING:
    from queuegate_server.settings.model import Settings

VARIABLES: Final = f"{PREFIX}ADMISSION"
"""The prefix of environment variables that set options of `admission`."""
_OPTIONS: Final = frozenset(
    f"{VARIABLES}_{option}"
    for option in ("DEFAULTS", "CONFIGS", "NAMESPACE_ANNOTATIONS", "API_SERVER", "SERVICE_ACCOUNT")
)
_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----"
)


@click.command(
    cls=DocumentedCommand,
    example="queuegate-server admission manifest --config queuegate.yaml > webhook.yaml",
    exit_statuses={
        0: "the configurations are printed",
        EXIT_FAILURE: "incorrect usage, configuration or policy",
    },
)
@config_option("The webhook's settings file (queuegate.yaml).", required=True)
@overrides_option
@service_option
@click.option(
    "--ca-file",
    type=FILE,
    help="The CA that signs the webhook's certificate, in PEM format. If omitted, another tool,"
    " such as cert-manager, must add it.",
)
@click.option(
    "--name",
    default="queuegate-admission",
    show_default=True,
    callback=object_name,
    help="The name of the configurations. The configuration for queues gets the suffix -queues.",
)
@click.option(
    "--queues-only",
    is_flag=True,
    help="Print only the configuration for queues, for example for the component"
    " deploy/admission/queues.",
)
@click.option(
    "--vap",
    is_flag=True,
    help="Print ValidatingAdmissionPolicies instead, with which the API server checks RBAC itself,"
    " without a webhook. Requires policy.kubernetes.",
)
def manifest(
    *,
    config: Path,
    overrides: tuple[str, ...],
    service: tuple[str, str],
    ca_file: Path | None,
    name: str,
    queues_only: bool,
    vap: bool,
) -> None:
    """Print the webhook configurations and RBAC for the settings.

    Apply them with `kubectl apply -f`. They determine which requests the API server sends to the
    webhook. Print and apply them again when admission.queues changes: its modes, schedulers,
    controllers, exempt users or `unqueued`.

    With `--vap`, prints a ValidatingAdmissionPolicy and a binding for each kind of queue, for
    clusters without the webhook. These policies see fewer names than the webhook does.

    Prints nothing if the webhook would reject the settings or the policy. Warnings are printed on
    standard error. If the policy's absolute paths do not exist on this machine, checks only the
    settings, and says so on standard error.
    """
    # Imported here because they are slow to import, and not needed for --help.
    from queuegate_server.admission.registration.configurations import (  # noqa: PLC0415
        Service,
        queue_configurations,
        webhook_configurations,
    )
    from queuegate_server.admission.registration.yaml_writer import render  # noqa: PLC0415
    from queuegate_server.cli.start_checks import (  # noqa: PLC0415
        absent_policy_files,
        policy_diagnostics,
        relative_absent_policy_files,
        webhook_warnings,
    )

    try:
        # Only the webhook's pod has the files that are named in the settings.
        settings, source_map = load_with_origins(
            config, settings_variables(os.environ), overrides, absent_files=set()
        )
    except SettingsError as error:
        raise Failure.of("the settings are not valid", error.diagnostics) from None
    if relative := relative_absent_policy_files(settings, source_map):
        raise Failure.of("the policy cannot be read", relative)
    diagnostics = [*webhook_warnings(settings, source_map)]
    if absent := absent_policy_files(settings):
        click.echo(
            f"The policy was not checked: {absent[0]} does not exist on this machine.", err=True
        )
    else:
        diagnostics += policy_diagnostics(settings, source_map)
    if has_errors(diagnostics):
        raise Failure.of("the policy cannot be used", diagnostics)
    for each in diagnostics:
        click.echo(str(each), err=True)
    namespace, service_name = service
    service_of_webhook = Service(namespace, service_name, _ca_bundle(ca_file))
    select = queue_configurations if queues_only else webhook_configurations
    documents = select(settings.admission, service_of_webhook, name)
    if vap:
        documents = _access_policies(settings, name)
    elif any(source.is_own_cluster for source in settings.sources) and not queues_only:
        from queuegate_server.policystore.kubernetes import rights  # noqa: PLC0415 - slow

        account = "queuegate-admission"
        documents = [*documents, *rights.documents(f"{account}-rbac", namespace, account)]
    if not documents:
        click.echo("# Nothing is reviewed: admission.queues is not set, or every mode is off.")
    click.echo(render(documents), nl=False)


def _access_policies(settings: "Settings", name: str) -> list[dict[str, Any]]:
    """Return the policies that need no webhook."""
    from queuegate_server.admission.registration.access_policies import (  # noqa: PLC0415 - slow
        access_policies,
    )

    queues = settings.admission.queues
    rbac = next((each.kubernetes.rbac for each in settings.sources if each.kubernetes), None)
    if queues is None:
        return []
    if rbac is None or not settings.is_rbac(queues.partition):
        raise Failure(
            "--vap requires Kubernetes RBAC as the policy: set policy.kubernetes, or omit --vap"
        )
    return [*access_policies(queues, rbac, name)]


def settings_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables for options of `admission`, which are not
    settings.
    """
    return {name: value for name, value in environment.items() if name not in _OPTIONS}


def _ca_bundle(file: Path | None) -> str:
    """Return only the certificates in a file, in base64."""
    if file is None:
        return ""
    certificates = _CERTIFICATE.findall(read_or_fail(file)[0])
    if not certificates:
        raise Failure(f"{file}: contains no certificate: pass a PEM file")
    return base64.b64encode(b"".join(b"%s\n" % each for each in certificates)).decode("ascii")
