"""Single checks over the native transport, compared with a bare handler on it."""

from pathlib import Path

from bench import unary
from bench.command import Scale, main
from bench.results import Part


def measure(scale: Scale, folder: Path) -> Part:
    """Ask both servers at several concurrencies."""
    return unary.measure_over("native", scale, folder)


if __name__ == "__main__":
    main(measure, __doc__)
