"""A process with many gates, which notes the state that each answer came from.

    asking.py ADDRESS GATES FILE

For each version of the policy and of the groups, FILE gets the latest start of a call whose answer
showed that version, in seconds of the monotonic clock, which all processes of a machine share.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

import queuegate

PAUSE = 0.02


class Seen:
    """The latest start of a call, by what it showed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.latest: dict[str, float] = {}
        self.answers = 0
        self.decided = 0

    def note(self, version: str, begin: float, *, decided: bool) -> None:
        with self._lock:
            self.latest[version] = max(begin, self.latest.get(version, 0.0))
            self.answers += 1
            self.decided += decided

    def write(self) -> None:
        with self._lock:
            document = {"latest": self.latest, "answers": self.answers, "decided": self.decided}
            text = json.dumps(document)
        draft = self._path.with_suffix(".new")
        draft.write_text(text)
        draft.replace(self._path)


def ask(gate: queuegate.Gate, seen: Seen) -> None:
    """Ask for ever."""
    while True:
        for user, queue in (("probe", "root.policy"), ("member", "root.groups")):
            begin, before = time.monotonic(), gate.decided
            try:
                decision = gate.check(user, queue)
            except queuegate.QueuegateError:
                continue
            seen.note(decision.matched_subject, begin, decided=gate.decided > before)
        time.sleep(PAUSE)


if __name__ == "__main__":
    address, gates, file = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    shared = Seen(file)
    for number in range(gates):
        opened = queuegate.Gate(address, name=f"{os.getpid()}/{number}", timeout=1.0)
        threading.Thread(target=ask, args=(opened, shared), daemon=True).start()
    while True:
        time.sleep(0.25)
        shared.write()
