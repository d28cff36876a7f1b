"""yarn-site.xml: whether ACLs are enforced, and who administers the cluster."""

from contextlib import suppress

from queuegate_server.formats.findings import Findings, TooManyErrors
from queuegate_server.formats.problems import Problem
from queuegate_server.formats.yarn.hadoop_xml import read_properties, truth
from queuegate_server.formats.yarn.model import Site, YarnOptions

_ENFORCED = Site(acls_enabled=True, admins=" ")


def read_site(options: YarnOptions) -> tuple[Site, tuple[Problem, ...]]:
    """Return what the file says, by Hadoop's defaults where it says nothing: ACLs are
    disabled, and everybody administers the cluster. Also return all findings in it.

    Without a file ACLs are enforced: queues are served so that their ACLs count.
    """
    if options.site is None:
        return _ENFORCED, ()
    data, file = options.site
    findings = Findings(file)
    properties = None
    with suppress(TooManyErrors):
        properties = read_properties(data, file, findings)
    if properties is None:
        return _ENFORCED, findings.in_order()
    switch, admins = properties.get("yarn.acl.enable"), properties.get("yarn.admin.acl")
    enabled = truth(switch, default=False)
    if not enabled:
        message = "yarn.acl.enable is not true: access is granted to everybody"
        findings.warning(switch, message, "set it to true")
    text = admins.text if admins else "*"
    if enabled and text.strip() == "*":
        message = "yarn.admin.acl lets everybody administer the cluster: no queue is protected"
        findings.warning(admins, message, "list a few users and groups, or write a single space")
    return Site(enabled, text, admins), findings.in_order()
