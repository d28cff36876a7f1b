"""Runs fuzz targets under atheris, which keeps the inputs that reach new code.

    python -m tests.fuzz.run [NAME ...] [--seconds 60]

`make fuzz` installs atheris first. Seeds and what was found on earlier runs are in
.cache/fuzz/NAME; an input that breaks a target is written to .cache/fuzz/NAME-crashes.
"""

import argparse
import hashlib
import importlib
import logging
import random
import subprocess
import sys
from pathlib import Path
from typing import Final

TARGETS: Final = (
    *("wire", "acls", "yarn_xml", "queues_yaml", "admission", "ldap_answers", "rbac_answers"),
)
FOUND: Final = Path("tests/fuzz/found")
_CACHE: Final = Path(".cache/fuzz")
_MAX_BYTES: Final = 8192
_MAX_MEMORY_MB: Final = 512
"""A target takes less than 100 MB."""
_SECONDS_PER_INPUT: Final = 20
"""Far more than any input needs: what takes longer hangs, on a busy machine too."""


def main() -> None:
    """Run targets, each in a process of its own, so that its end can be explained."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.names or TARGETS
    if unknown := set(names).difference(TARGETS):
        parser.error(f"no targets: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if given.child:
        _fuzz(names[0], given.seconds)
        return
    broken = [name for name in names if not _run(name, given.seconds)]
    sys.exit(f"broken: {', '.join(broken)}" if broken else 0)


def _run(name: str, seconds: int) -> bool:
    """Run a target; say what to do with an input that breaks it."""
    crashes = _CACHE / f"{name}-crashes"
    crashes.mkdir(parents=True, exist_ok=True)
    before = set(crashes.iterdir())
    print(f"\n{name}: {seconds} s", flush=True)
    command = (sys.executable, "-m", "tests.fuzz.run", name, "--child", "--seconds", str(seconds))
    code = subprocess.run(command, check=False).returncode
    for path in sorted(set(crashes.iterdir()) - before):
        print(
            f"\n{path} breaks the target `{name}`. Mend the cause, and keep the input as a test:\n"
            f"    mkdir -p {FOUND / name} && cp {path} {FOUND / name}/a_name_that_says_why\n"
            f"    .venv/bin/pytest tests/fuzz -k a_name_that_says_why"
        )
    return code == 0


def _fuzz(name: str, seconds: int) -> None:
    import atheris

    logging.disable()
    with atheris.instrument_imports(include=["queuegate", "queuegate_server"]):
        module = importlib.import_module(f"tests.fuzz.targets.{name}")
    corpus = _CACHE / name
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = [*module.seeds(), *(path.read_bytes() for path in (FOUND / name).glob("*"))]
    for seed in seeds:
        (corpus / hashlib.sha256(seed).hexdigest()[:32]).write_bytes(seed)
    tokens = _CACHE / f"{name}.tokens"
    tokens.write_text("".join(f'"{_escaped(token)}"\n' for token in module.TOKENS))
    arguments = [
        sys.argv[0],
        str(corpus),
        f"-dict={tokens}",
        f"-artifact_prefix={_CACHE / f'{name}-crashes'}/",
        f"-max_total_time={seconds}",
        f"-max_len={_MAX_BYTES}",
        f"-timeout={_SECONDS_PER_INPUT}",
        f"-rss_limit_mb={_MAX_MEMORY_MB}",
        "-print_final_stats=1",
    ]
    mutated = getattr(module, "mutated", None)

    def mutate(data: bytes, max_bytes: int, seed: int) -> bytes:
        """Change bytes now and then, otherwise the structure of the input or, if it has none, of
        a seed.
        """
        rng = random.Random(seed)
        if mutated and seed % 4:
            changed = mutated(data, rng) or rng.choice(seeds)
            for _ in range(rng.randrange(3)):
                changed = mutated(changed, rng) or changed
            if len(changed) <= max_bytes:
                return bytes(changed)
        return bytes(atheris.Mutate(data, max_bytes))

    atheris.Setup(arguments, module.target, **({"custom_mutator": mutate} if mutated else {}))
    atheris.Fuzz()


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


if __name__ == "__main__":
    main()
