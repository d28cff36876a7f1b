"""Looks for known vulnerabilities in the pinned packages: `make audit`.

Exit status 1 if there are some. Where the index cannot be asked, that is said and is no
failure: the tests also run without a network.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[3]
LOCK = PROJECT / "tests" / "requirements.txt"
IMAGE_LOCK = PROJECT / "deploy" / "image-requirements.txt"
TRY_SECONDS = 10
SECONDS = 120


def main() -> int:
    """Ask about one package first: where that has no answer, the others have none."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as one:
        one.write(first_requirement(LOCK.read_text(encoding="utf-8")))
        one.flush()
        if not audited(packages(TRY_SECONDS, one.name)):
            print("pip-audit: the index does not answer; nothing was audited")
            return 0
    return report(packages(SECONDS, str(LOCK), str(IMAGE_LOCK)))


def first_requirement(lock: str) -> str:
    """Return the first package of a lock, with its hashes."""
    lines = [line for line in lock.splitlines() if line and not line.lstrip().startswith("#")]
    ends = (count for count, line in enumerate(lines, start=1) if not line.endswith("\\"))
    return "\n".join(lines[: next(ends)]) + "\n"


def packages(seconds: float, *locks: str) -> list[dict[str, Any]]:
    """Return pip-audit's entry for each package; nothing if it has no answer in time."""
    command = [
        *(sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip"),
        *("--progress-spinner", "off", "--format", "json", "--timeout", "5"),
        *(argument for lock in locks for argument in ("-r", lock)),
    ]
    try:
        outcome = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False
        )
        found: list[dict[str, Any]] = json.loads(outcome.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError):
        return []
    return found


def audited(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the packages that the index knows about."""
    return [package for package in found if "skip_reason" not in package]


def report(found: Sequence[dict[str, Any]]) -> int:
    """Print what was found; return the exit status."""
    known = audited(found)
    if not known:
        print("pip-audit: the index stopped answering; nothing was audited")
        return 0
    vulnerable = [package for package in known if package["vulns"]]
    for package in vulnerable:
        for finding in package["vulns"]:
            fixed = ", ".join(finding["fix_versions"]) or "none"
            print(f"{package['name']} {package['version']}: {finding['id']}, fixed in: {fixed}")
    skipped = len(found) - len(known)
    print(f"pip-audit: {len(known)} packages, {len(vulnerable)} vulnerable, {skipped} not known")
    return 1 if vulnerable else 0


if __name__ == "__main__":
    raise SystemExit(main())
