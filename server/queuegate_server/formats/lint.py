"""Diagnostics that are no errors: what is valid, but hardly what its author means."""

from collections.abc import Callable

from queuegate.policy.acl import AclNames
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.registry import FORMATS, names_chooser, unknown_format
from queuegate_server.formats.yarn import lint as yarn
from queuegate_server.formats.yarn.load import STATES
from queuegate_server.formats.yunikorn import lint as yunikorn


def lint(
    format_name: str,
    data: bytes,
    file: str,
    *,
    acl_names: Callable[[str], AclNames] | AclNames = AclNames.YUNIKORN,
    semantics: Semantics = Semantics.DOCUMENTED,
) -> list[Diagnostic]:
    """Return warnings about doubtful things, by position; none if the text cannot be read.

    Arguments are as those of `load_policy`, which reports errors and dropped names;
    `semantics` says how a file of YARN is read.
    Raises ValueError if the format is not known.
    """
    if format_name not in FORMATS:
        raise ValueError(unknown_format(format_name))
    if format_name in STATES:
        return list(yarn.lint(STATES[format_name], data, file, semantics))
    return list(yunikorn.lint(data, file, acl_names=names_chooser(acl_names)))
