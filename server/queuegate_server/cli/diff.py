"""`queuegate-server diff`."""

from collections.abc import Mapping
from pathlib import Path

import click

from queuegate.policy.acl import AclNames
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.cli import policy_files
from queuegate_server.cli.command import Failure
from queuegate_server.files.safe_open import remedy
from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.formats.diff import differences
from queuegate_server.formats.registry import YUNIKORN, detect_format, load_policy
from queuegate_server.formats.yarn.model import YarnOptions


@click.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@policy_files.resolver_types_option
@policy_files.acl_names_option
@policy_files.yarn_site_option
@policy_files.semantics_option
@click.pass_context
def diff(
    context: click.Context,
    *,
    old: str,
    new: str,
    resolver_types: tuple[str, ...],
    acl_names: str,
    yarn_site: Path | None,
    semantics: str,
) -> None:
    """Say what changes in the ACLs of queues from the policy OLD to the policy NEW.

    Needs no server. One of the two may be - for standard input. Prints a line for each
    partition or queue that was added or removed, and for each ACL that lets in others than
    before: + is whom it lets in now, - whom it does no longer. Each queue's own ACLs are
    compared; what those above it grant still counts. Both files must be YuniKorn's, or both
    YARN's.

    Exit status: 0 no difference, 1 a difference, 2 wrong usage, or a file that cannot be
    read or is not valid.
    """
    if old == new == "-":
        raise Failure("standard input can be only one of the two")
    chosen = Semantics(semantics)
    options = YarnOptions(semantics=lambda _: chosen, site=policy_files.site(yarn_site))

    def read(file: str) -> tuple[bool, Mapping[str, Partition]]:
        try:
            data, name = policy_files.content(file)
        except OSError as error:
            message = f"{file}: cannot be read: {error.strerror or error} ({remedy(error)})"
            raise Failure(message) from None
        format_name = detect_format(data)
        loaded = load_policy(
            format_name,
            data,
            name,
            acl_names=AclNames(acl_names),
            resolver_types=frozenset(resolver_types),
            yarn_options=options,
        )
        if has_errors(loaded.diagnostics):
            for diagnostic in loaded.diagnostics:
                click.echo(str(diagnostic), err=True)
            raise Failure(f"{name}: not valid")
        return format_name == YUNIKORN, loaded.partitions

    (old_is_yunikorn, before), (new_is_yunikorn, after) = read(old), read(new)
    if old_is_yunikorn is not new_is_yunikorn:
        # Names of queues compare differently, and YARN has administrators of the cluster.
        raise Failure("one file is YuniKorn's and the other YARN's: convert one of them first")
    found = False
    for line in differences(before, after):
        found = True
        click.echo(line)
    context.exit(policy_files.NO if found else 0)
