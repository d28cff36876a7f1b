"""Compares proofs and refutations of random claims about random policies with Z3's results.

    python -m tests.support.claims_against_z3 10000

The commands of each refutation are run as well.
"""

import contextlib
import io
import random
import shlex
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from queuegate.cli import main as queuegate
from queuegate.policy.claims import holds, refute
from queuegate_server.analysis.policy_file import PolicyFile
from queuegate_server.formats.claims import bind, load_claims
from queuegate_server.formats.diagnostics import Diagnostics
from tests.support.generators.claims import (
    FORMATS,
    RandomPolicy,
    random_claim,
    random_facts,
    random_options,
    random_policy,
)
from tests.support.oracles.claims import is_refuted

CLAIMS_PER_POLICY = 4


def check(seed: int, folder: Path) -> Counter[str]:
    """Compare the claims about one policy, and run the commands. Raises AssertionError."""
    rng = random.Random(seed)
    format_name = rng.choice(FORMATS)
    options = random_options(rng)
    if options.yarn.site is not None:
        site = folder / "yarn-site.xml"
        site.write_bytes(options.yarn.site[0])
        options = replace(
            options, yarn=replace(options.yarn, site=(options.yarn.site[0], str(site)))
        )
    if format_name == "yunikorn":
        options = replace(options, yarn=type(options.yarn)())
    else:
        options = replace(options, acl_names=type(options)().acl_names)
    new, old = (random_policy(rng, format_name, options) for _ in range(2))
    files = [_file(each, folder / name) for each, name in ((new, "new"), (old, "old"))]
    claims = [random_claim(rng) for _ in range(CLAIMS_PER_POLICY)]
    lines = ["facts:", *(f"  - {fact}" for fact in random_facts(rng))]
    lines += ["claims:", *(f"  - {claim}" for claim in claims)]
    diagnostics = Diagnostics("claims")
    stated = load_claims("\n".join(lines).encode(), diagnostics, "claims")
    if diagnostics.error_count:
        # The facts leave nobody to whom one of them applies.
        return Counter(contradictions=1)
    partition, before = (each.partitions["default"] for each in files)
    counts: Counter[str] = Counter()
    for each in stated.claims:
        claim = bind(each, partition, lambda _: before)
        refutation = refute(partition, claim, stated.world)
        assert is_refuted(partition, claim, stated.world) is (refutation is not None), (seed, each)
        counts["refuted" if refutation else "proved"] += 1
        for answer in refutation.answers if refutation else ():
            assert refutation is not None
            policy = files[answer.is_old]
            assert holds(policy.partitions["default"], answer, refutation.person), (seed, each)
            command = policy.command("default", refutation.person, answer)
            shown, status = _run(command)
            word = "allowed" if answer.is_allowed else "denied"
            assert (status, shown.split(":")[0]) == (not answer.is_allowed, word), (seed, command)
            counts["commands"] += 1
    return counts


def _file(policy: RandomPolicy, path: Path) -> PolicyFile:
    path.write_text(policy.text)
    data = policy.text.encode()
    partitions = {"default": policy.load()}
    return PolicyFile(str(path), data, policy.format_name, policy.options, partitions)


def _run(command: str) -> tuple[str, int]:
    """Run `queuegate` in this process, and return its output and its status."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        status = queuegate(shlex.split(command)[1:])
    return shown.getvalue(), status


def run(first: int, policies: int) -> Counter[str]:
    """Check policies with seeds from `first` on."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + policies):
            counts += check(seed, Path(folder))
    return counts


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(dict(run(0, -(-wanted // CLAIMS_PER_POLICY))))
