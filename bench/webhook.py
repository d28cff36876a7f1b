"""Measures how many reviews the admission webhook answers, and how fast, with hey over HTTPS."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from bench import processes
from bench.command import CannotMeasure, Scale, main
from bench.peers.install import go_program
from bench.results import Part, Table, spread
from queuegate_server.admission.certificate.issuer import issue
from tests.support.go_toolchain import Program

HEY: Final = Program("github.com/rakyll/hey", "v0.1.5")
_CONNECTIONS: Final = (1, 8, 64)


class Throughput(NamedTuple):
    """What hey measures."""

    per_second: float
    p50: float
    p99: float
    """In milliseconds, as p50. Of fewer than 100 requests, hey computes none, and this is NaN."""


def measure(scale: Scale, folder: Path) -> Part:
    """Ask for the patch of a pod, and for a refusal, over persistent connections."""
    hey = go_program(HEY)
    table = Table(
        "Admission webhook",
        "One `AdmissionReview` per request, over HTTPS/1.1 with keep-alive; hey and the webhook "
        "share the machine, one core each. *Patched*: a pod without the annotation. *Refused*: a "
        "pod with a forged one, which is also logged.",
        ("review, connections", "reviews/s", "median, ms", "p99, ms"),
    )
    folder.mkdir(exist_ok=True)
    with _webhook(folder) as address:
        for name, body in _reviews().items():
            file = folder / f"{name}.json"
            file.write_text(json.dumps(body))
            for connections in _CONNECTIONS:
                measurements = [
                    throughput(hey, f"{address}/mutate", file, connections, scale.seconds)
                    for _ in range(scale.rounds)
                ]
                table.add(
                    f"{name}, {connections}",
                    spread([each.per_second for each in measurements]),
                    spread([each.p50 for each in measurements], ".1f"),
                    spread([each.p99 for each in measurements], ".1f"),
                )
    return Part([table])


def _reviews() -> dict[str, dict[str, object]]:
    container = {"name": "c", "image": "registry.example.com/team/image:1.2.3"}
    pods: dict[str, dict[str, object]] = {
        "patched": {"name": "p", "labels": {"app": "a"}},
        "refused": {"name": "p", "annotations": {"yunikorn.apache.org/user.info": '{"user":"x"}'}},
    }
    return {
        name: {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "5bd1ad9c-6a19-4a25-a0c5-3d4e0e1b6b0e",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "operation": "CREATE",
                "namespace": "dev",
                "userInfo": {"username": "alice", "groups": ["dev", "system:authenticated"]},
                "object": {"metadata": metadata, "spec": {"containers": [container]}},
            },
        }
        for name, metadata in pods.items()
    }


@contextmanager
def _webhook(folder: Path) -> Iterator[str]:
    """Run the webhook with settings that never match, which is the longest path."""
    for name, content in issue("localhost", datetime.now(UTC), {}).items():
        (folder / name).write_bytes(content)
    configs = folder / "configs"
    configs.mkdir()
    (configs / "admissionController.accessControl.externalUsers").write_text("^portal$,^livy-")
    (configs / "admissionController.accessControl.externalGroups").write_text("^gateways$")
    command = [sys.executable, *processes.PRODUCT, "admission"]
    command += ["--set=admission.listen=127.0.0.1:0", "--set=ops.listen=127.0.0.1:0"]
    command += [f"--set=admission.tls.certificate_file={folder / 'tls.crt'}"]
    command += [f"--set=admission.tls.key_file={folder / 'tls.key'}"]
    command += ["--configs", str(configs)]
    with processes.running(command, folder / "server", on_own_core=True) as server:
        yield server.address


def throughput(hey: Path, url: str, body: Path, connections: int, seconds: float) -> Throughput:
    """Post a review repeatedly over persistent connections.

    Raises:
        CannotMeasure: Not every review was answered with status 200.
    """
    command = [str(hey), "-z", f"{seconds:g}s", "-c", str(connections), "-m", "POST"]
    command += ["-T", "application/json", "-D", str(body), url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    text = done.stdout
    statuses = re.findall(r"^\s+\[(\d+)\]\s+(\d+) responses", text, re.MULTILINE)
    if [status for status, _ in statuses] != ["200"] or "Error distribution" in text:
        raise CannotMeasure(f"hey: not every review was answered: {text}{done.stderr}")

    def number(pattern: str) -> float:
        match = re.search(pattern, text)
        return math.nan if match is None else float(match[1])

    per_second = number(r"Requests/sec:\s+([0-9.]+)")
    if math.isnan(per_second):
        raise CannotMeasure(f"hey: its report has no requests per second: {text}")
    return Throughput(
        per_second,
        number(r"50%+ in ([0-9.]+) secs") * 1000,
        number(r"99%+ in ([0-9.]+) secs") * 1000,
    )


if __name__ == "__main__":
    main(measure, __doc__)
