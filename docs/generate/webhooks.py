"""The webhook configurations in deploy/, as `queuegate-server admission manifest` prints them."""

from pathlib import Path
from typing import Final

from queuegate_server.admission.queues.manifest import render
from queuegate_server.admission.queues.registration import Service, webhook_configurations
from queuegate_server.settings.admission import Admission

WITHOUT_QUEUES: Final = Path("deploy/admission/base/webhooks.yaml")
_SERVICE: Final = Service("yunikorn", "queuegate-admission")
_COMMENT: Final = "# `make docs-generated` writes this file.\n"


def generate_without_queues() -> str:
    """Return the configurations of a webhook that checks no queues."""
    documents = webhook_configurations(Admission(), _SERVICE, _SERVICE.name)
    return f"{_COMMENT}{render(documents)}"
