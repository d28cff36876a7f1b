"""The format names of policies and their companion files, as in settings and options."""

from typing import Final

YUNIKORN: Final = "yunikorn"
KUBERNETES: Final = "kubernetes"
"""Kubernetes RBAC, with the queues of the cluster's schedulers."""
FAIR_SCHEDULER: Final = "fair-scheduler"
CAPACITY_SCHEDULER: Final = "capacity-scheduler"
SPARK_DEFAULTS: Final = "spark-defaults"
YARN_SITE: Final = "yarn-site"

FORMATS: Final = frozenset({YUNIKORN, KUBERNETES, FAIR_SCHEDULER, CAPACITY_SCHEDULER})
"""The formats of policies."""
FILE_FORMATS: Final = FORMATS | {SPARK_DEFAULTS, YARN_SITE}
"""The formats of all files that can be checked: policies and their companion files."""
