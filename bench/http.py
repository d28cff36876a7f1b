"""Measures evaluations over HTTP beside a constant handler on the same aiohttp server, with hey."""

import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import processes
from bench.command import Scale, main
from bench.peers.install import go_program
from bench.results import Part, Table, Target, ratios, spread
from bench.webhook import HEY, throughput

CONNECTIONS: Final = 50
GOAL: Final = 0.75
"""The share of the constant handler's calls for questions that have been asked before."""
_BATCH: Final = 1_000
_BATCH_CONNECTIONS: Final = 1
"""Batches take turns, and a server that has too many of them refuses some."""
_POLICY: Final = Path(__file__).parents[1] / "examples" / "queues.yaml"
_EVALUATION: Final = "/access/v1/evaluation"


def measure(scale: Scale, folder: Path) -> Part:
    """Ask the constant handler, and the same question of our server, in turn."""
    hey = go_program(HEY)
    folder.mkdir(exist_ok=True)
    files = {}
    for name, (_, body) in _requests().items():
        files[name] = folder / f"{name}.json"
        files[name].write_text(json.dumps(body))
    found: dict[str, list[float]] = {name: [] for name in ("constant", *files)}
    table = Table(
        "HTTP",
        "POSTs over HTTP/1.1 with keep-alive; hey and the server share the machine, one core each."
        " *Constant*: the same aiohttp server with a handler that reads the body and returns a"
        f" constant. *Known*: a question asked before. *Batch*: {_BATCH} evaluations in a request.",
        ("request", "connections", "requests/s", "ratio to constant"),
    )
    bare = [sys.executable, "-m", "bench.bare_http"]
    with (
        processes.running(bare, folder / "bare", on_own_core=True) as constant,
        _server(folder) as address,
    ):
        for _ in range(scale.rounds):
            for name, figures in found.items():
                path, _ = _requests().get(name, ("/", {}))
                asked = constant.address if name == "constant" else address
                file = files.get(name, files["known"])
                url = f"http://{asked}{path}"
                once = throughput(hey, url, file, _connections(name), scale.seconds)
                figures.append(once.per_second)
    for name, figures in found.items():
        shares = spread(ratios(figures, found["constant"]), ".2f") if name == "known" else ""
        table.add(name, str(_connections(name)), spread(figures), shares)
    reached = statistics.median(ratios(found["known"], found["constant"]))
    what = "a known question over HTTP, of a constant handler's calls"
    return Part([table], [Target(what, f"≥ {GOAL}", f"{reached:.2f}", reached >= GOAL)])


def _connections(name: str) -> int:
    return _BATCH_CONNECTIONS if name == "batch" else CONNECTIONS


def _requests() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the path and body of each request, by its name in the table."""
    known = {
        "subject": {"type": "user", "id": "sue", "properties": {"groups": ["staff", "writers"]}},
        "action": {"name": "submit"},
        "resource": {"type": "queue", "id": "root.analytics.reports"},
    }
    items = [{"action": {"name": name}} for name in ("submit", "admin")] * (_BATCH // 2)
    return {
        "known": (_EVALUATION, known),
        "batch": ("/access/v1/evaluations", known | {"evaluations": items}),
    }


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    address = processes.free_address()
    command = [*processes.queuegate(_POLICY), "--set", f"http.listen={address}"]
    with processes.running(command, folder / "server", on_own_core=True):
        yield address


if __name__ == "__main__":
    main(measure, __doc__)
