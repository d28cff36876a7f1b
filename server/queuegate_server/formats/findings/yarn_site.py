"""Findings about a yarn-site.xml, and about what decides instead of a scheduler's file."""

from typing import Final

from queuegate_server.formats.findings.acls import WRITE_THE_VALUE
from queuegate_server.formats.findings.finding import Finding

DEFAULTS: Final = "Hadoop's yarn-default.xml"
CONFIGURATION: Final = "Hadoop's YarnConfiguration"

NOT_ENFORCED: Final = Finding(
    "acls-not-enforced",
    "yarn.acl.enable is {stated}: access is granted to everyone{fair}",
    "set it to true",
    DEFAULTS,
)
EVERYONE_ADMINISTERS: Final = Finding(
    "everyone-administers",
    "yarn.admin.acl is {stated}: everyone {effect}",
    "list a few users and groups, or write a single space",
    DEFAULTS,
)
NOT_A_SITE: Final = Finding(
    "not-a-yarn-site",
    "this is not a yarn-site.xml: it sets {what}",
    "use the ResourceManager's yarn-site.xml, which sets yarn.acl.enable",
    "ACLs are not enforced unless a yarn-site.xml enables them",
    is_error=True,
)
MISSPELLED: Final = Finding(
    "misspelled-property",
    "{name} is not a property of YARN: it is ignored",
    "did you mean {meant}?",
    CONFIGURATION,
)
UNKNOWN_VALUE: Final = Finding(
    "unknown-value",
    "{key} may name something other than this file, but its value is unknown: {why}",
    WRITE_THE_VALUE,
    CONFIGURATION,
)
AUTHORIZER: Final = Finding(
    "other-authorizer",
    "{key} is {stated}: it decides alone or before the ACLs",
    "compare its policies with the queues' ACLs",
    "Hadoop's YarnAuthorizationProvider",
)
PROVIDER: Final = Finding(
    "files-from-elsewhere",
    "{key} is {stated}: the ResourceManager reads files from elsewhere",
    "serve copies of the files that it reads",
    "Hadoop's ConfigurationProviderFactory",
)
OTHER_FILE: Final = Finding(
    "other-allocation-file",
    "{key} is {stated}, and this file is {file}",
    "serve that file, or a copy with its name",
    "Hadoop's FairSchedulerConfiguration",
)
UNKNOWN_SCHEDULER: Final = Finding(
    "unknown-scheduler",
    "{key} is {stated}, neither the capacity scheduler nor the fair scheduler: their files may have"
    " no effect",
    "check which file this scheduler reads",
    CONFIGURATION,
)
OTHER_SCHEDULER: Final = Finding(
    "other-scheduler",
    "{key} is {stated}: the given {format}.xml may have no effect",
    "set it to {expected}, or serve that scheduler's file",
    CONFIGURATION,
)
_STORES: Final = "Hadoop's MutableCSConfigurationProvider"
STORE: Final = Finding(
    "queues-in-a-store",
    "{key} is {stated}: after its first start the ResourceManager reads the queues from that store,"
    " not from capacity-scheduler.xml",
    "serve what its API returns at /ws/v1/cluster/scheduler-conf, or set it to file",
    _STORES,
)
MEMORY_STORE: Final = Finding(
    "queues-in-memory",
    "{key} is {stated}: changes to queues through its API are not in this file",
    STORE.remedy,
    _STORES,
)
UNKNOWN_STORE: Final = Finding(
    "unknown-store",
    "{key} is {stated}: the ResourceManager starts only with {stores}, in lower case",
    "write one of these names, without white space",
    _STORES,
)
