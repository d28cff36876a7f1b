"""Counts of what resolvers were asked."""

from collections.abc import Callable
from typing import Final

from queuegate_server.identity.resolver import Found, NoSuchUser, Outcome
from queuegate_server.observe.timings import Timings

SECONDS: Final = (
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
OUTCOMES: Final = ("found", "no_such_user", "could_not_ask")


class ResolverLookups:
    """The look-ups of one resolver. Used from one event loop."""

    def __init__(self) -> None:
        """Start at zero."""
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.timings = Timings(SECONDS)

    def add(self, outcome: Outcome, seconds: float) -> None:
        """Count a look-up."""
        if isinstance(outcome, Found):
            name = "found"
        else:
            name = "no_such_user" if isinstance(outcome, NoSuchUser) else "could_not_ask"
        self.outcomes[name] += 1
        self.timings.add(seconds)


class Lookups:
    """The look-ups of all resolvers, by name and where it is defined; also of those that
    are in use no more.
    """

    def __init__(self) -> None:
        """Start without resolvers."""
        self.resolvers: dict[tuple[str, str], ResolverLookups] = {}

    def of_resolver(self, name: str, defined_in: str) -> Callable[[Outcome, float], None]:
        """Return what counts the look-ups of a resolver."""
        return self.resolvers.setdefault((name, defined_in), ResolverLookups()).add
