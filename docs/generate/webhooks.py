"""The webhook configurations in deploy/, as `queuegate-server admission manifest` prints them."""

from pathlib import Path
from typing import Final

import yaml

from queuegate_server.admission.queues.manifest import render
from queuegate_server.admission.queues.registration import Service, webhook_configurations
from queuegate_server.settings.admission import Admission

WITHOUT_QUEUES: Final = Path("deploy/admission/base/webhooks.yaml")
QUEUES: Final = Path("deploy/admission/queues/webhooks.yaml")
SETTINGS: Final = Path("deploy/admission/queues/settings.yaml")
"""The ConfigMap with the settings that QUEUES fits."""
_SERVICE: Final = Service("yunikorn", "queuegate-admission")
_COMMENT: Final = "# `make docs-generated` writes this file.\n"


def generate_without_queues() -> str:
    """Return the configurations of a webhook that checks no queues."""
    documents = webhook_configurations(Admission(), _SERVICE, _SERVICE.name)
    return f"{_COMMENT}{render(documents)}"


def generate_queues() -> str:
    """Return the configuration that checks queues as in SETTINGS."""
    config_map = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))
    settings = yaml.safe_load(config_map["data"]["queuegate.yaml"])["admission"]
    documents = webhook_configurations(Admission.model_validate(settings), _SERVICE, _SERVICE.name)
    return f"{_COMMENT}{render(documents[-1:])}"
