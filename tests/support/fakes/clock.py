"""A clock that a test moves."""


class ManualClock:
    """Seconds since some point in time. Stands still until the test moves it."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
