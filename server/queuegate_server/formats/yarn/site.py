"""yarn-site.xml: whether ACLs are enforced, and who administers the cluster."""

from contextlib import suppress
from typing import Final

from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    TooManyErrors,
    quoted,
)
from queuegate_server.formats.yarn.hadoop_xml import is_truth, read_properties, truth
from queuegate_server.formats.yarn.model import Site, YarnOptions

ENABLE: Final = "yarn.acl.enable"
ADMINS: Final = "yarn.admin.acl"
_ENFORCED: Final = Site(acls_enabled=True, admins=" ")


def read_site(options: YarnOptions) -> tuple[Site, tuple[Diagnostic, ...]]:
    """Return what the file says, by Hadoop's defaults where it says nothing: ACLs are
    disabled, and everybody administers the cluster. Also return all diagnostics in it.

    Without a file ACLs are enforced: queues are served so that their ACLs count.
    """
    if options.site is None:
        return _ENFORCED, ()
    data, file = options.site
    diagnostics = Diagnostics(file)
    properties = None
    with suppress(TooManyErrors):
        properties = read_properties(
            data, file, diagnostics, is_read=lambda name: name in {ENABLE, ADMINS}
        )
    if properties is None:
        return _ENFORCED, diagnostics.sorted()
    switch, admins = properties.get(ENABLE), properties.get(ADMINS)
    enabled = truth(switch, default=False)
    if not enabled:
        message = f"{ENABLE} is not set, and false by default"
        if switch is not None:
            message = f"{ENABLE} is {quoted(switch.text)}"
            message += "" if is_truth(switch) else ", which is neither true nor false, so false"
        message += ": access is granted to everybody"
        diagnostics.warning(switch, message, "set it to true")
    text = admins.text if admins else "*"
    if enabled and text.strip() == "*":
        message = f"{ADMINS} is {'*' if admins else 'not set, and * by default'}:"
        message += " everybody administers the cluster, and no queue is protected"
        diagnostics.warning(admins, message, "list a few users and groups, or write a single space")
    return Site(enabled, text, admins), diagnostics.sorted()
