"""Single checks of a running server over the native transport, beside a bare handler on it."""

from pathlib import Path
from typing import Final

from bench import unary
from bench.command import Scale, main
from bench.results import Part

_LATENCY: Final = (
    "The p99 at half of the peak over native is in `bench/PEERS.md`, by two peaks: ghz's, which "
    "is ghz's own limit, and that of `bench/peers/go/loadgen`, two to three times as high. At "
    "half of the latter (25,000 to 27,000 calls/s) the server's core is 85 to 97 % busy already: "
    "50 calls at once come in groups and take 18 µs each, while calls that come one by one, "
    "evenly spaced, take 35, as almost each of them wakes the thread that reads, the one that "
    "hands over, and the event loop. So whatever the core misses is worked off slowly. While the "
    "p90 is 0.6 ms, a p99 of 2 to 4 ms is what follows such moments: a loop that only reads the "
    "clock sees gaps of 1 to 10 ms for 0.2 to 1 % of the time on this machine, and the generator "
    "itself sends 1 % of the calls 0.6 to 1.2 ms late. A bare grpc-go handler had 4 to 6 ms under "
    "the same load. Tried: threads in the kernel's usual class (p50 0.7 instead of 0.37 ms, the "
    "same p99), and switch intervals of the interpreter of 0.5 and 50 ms instead of 5 (no better, "
    "or worse). Before, the generator was a client of grpc-go; of a p99 of 3 to 4 ms at 9,200 "
    "calls/s, 1.4 to 1.9 ms passed before a call was sent, and with frames written directly 0.6 "
    "to 1.0 ms were left."
)


def measure(scale: Scale, folder: Path) -> Part:
    """Ask both servers at several concurrencies."""
    part = unary.measure_over("native", scale, folder)
    part.remarks.append(_LATENCY)
    return part


if __name__ == "__main__":
    main(measure, __doc__)
