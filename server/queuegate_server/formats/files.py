"""Every file that can be checked by itself: policies, and those that stand beside them."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from queuegate.policy.acl import AclNames
from queuegate_server.formats.diagnostics import Diagnostic, has_errors, sort_diagnostics
from queuegate_server.formats.lint import lint
from queuegate_server.formats.registry import FORMATS, detect_format, load_policy
from queuegate_server.formats.spark_defaults import read_spark_defaults
from queuegate_server.formats.yarn.lint import lint_site
from queuegate_server.formats.yarn.load import STATES
from queuegate_server.formats.yarn.model import DEFAULT_OPTIONS, YarnOptions
from queuegate_server.formats.yarn.site import read_site
from queuegate_server.formats.yunikorn.load import RESOLVER_TYPES

SPARK: Final = "spark-defaults"
SITE: Final = "yarn-site"
FILE_FORMATS: Final = FORMATS | {SPARK, SITE}
"""The names of the formats of all files."""

_SPARK_PROPERTY: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t\r\f]*(?:[#!][^\n]*)?\n)*[ \t\f]*spark\."
)
_LOOKED_AT: Final = 65_536
_OF_SITE: Final = (b"yarn.acl.enable", b"yarn.admin.acl")
_OF_CAPACITY: Final = b"yarn.scheduler.capacity."


def detect_file_format(data: bytes) -> str:
    """Return the name of the format that a text seems to have, as `detect_format` does for
    policies.
    """
    if _SPARK_PROPERTY.match(data[:_LOOKED_AT]):
        return SPARK
    found = detect_format(data)
    is_site = any(key in data for key in _OF_SITE) and _OF_CAPACITY not in data
    return SITE if found == "capacity-scheduler" and is_site else found


def check_file(
    format_name: str,
    data: bytes,
    file: str,
    *,
    with_lint: bool,
    acl_names: Callable[[str], AclNames] | AclNames = AclNames.YUNIKORN,
    resolver_types: frozenset[str] = RESOLVER_TYPES,
    yarn_options: YarnOptions = DEFAULT_OPTIONS,
) -> list[Diagnostic]:
    """Return the diagnostics in a file by position, and what is valid but doubtful if asked to.

    Arguments are as those of `load_policy`. Raises ValueError if the format is not known.
    """
    if format_name == SPARK:
        return list(read_spark_defaults(data, file, with_lint=with_lint)[1])
    if format_name == SITE:
        site = replace(yarn_options, site=(data, file))
        return sort_diagnostics((*read_site(site)[1], *(lint_site(site) if with_lint else ())))
    diagnostics = load_policy(
        format_name,
        data,
        file,
        acl_names=acl_names,
        resolver_types=resolver_types,
        yarn_options=yarn_options,
    ).diagnostics
    if not with_lint or has_errors(diagnostics):
        return sort_diagnostics(diagnostics)
    semantics = yarn_options.semantics(yarn_options.partition)
    doubtful = lint(format_name, data, file, acl_names=acl_names, semantics=semantics)
    # Where both say the same of a position, once is enough.
    of_site = lint_site(yarn_options) if format_name in STATES else ()
    return sort_diagnostics(dict.fromkeys((*diagnostics, *doubtful, *of_site)))
