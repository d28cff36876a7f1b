"""The filter of the runbook reads the log as the journal and Kubernetes keep it."""

import json
import re
import subprocess
from pathlib import Path

LINES = (
    "Started queuegate.service - queuegate.",
    "serving /etc/queuegate/queues.yaml on 127.0.0.1:50051",
    json.dumps({"event": "listening", "level": "info"}),
    json.dumps({"event": "call failed", "level": "warning"}),
    json.dumps({"event": "policy diagnostic", "level": "error"}),
)


def test_the_filter_passes_over_lines_that_are_not_json() -> None:
    page = Path("docs/runbook/index.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"\| (jq -\S+ '[^'\n]+')", page)
    filtered = subprocess.run(
        ["sh", "-c", program], input="\n".join(LINES), capture_output=True, text=True, check=True
    )
    assert [json.loads(line)["event"] for line in filtered.stdout.splitlines()] == [
        "policy diagnostic"
    ]
