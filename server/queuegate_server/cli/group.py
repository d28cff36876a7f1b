"""The verbs of `queuegate-server`."""

import click

from queuegate_server.cli.admission import admission
from queuegate_server.cli.convert import convert
from queuegate_server.cli.diff import diff
from queuegate_server.cli.ldap_check import ldap_check
from queuegate_server.cli.lint import lint
from queuegate_server.cli.serve import serve
from queuegate_server.cli.token import token
from queuegate_server.cli.validate import validate


@click.group(name="queuegate-server", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="queuegate", prog_name="queuegate-server")
def group() -> None:
    """Serve, validate, lint and compare queue access policies of cluster schedulers."""


group.add_command(admission)
group.add_command(serve)
group.add_command(validate)
group.add_command(lint)
group.add_command(diff)
group.add_command(convert)
group.add_command(ldap_check)
group.add_command(token)
