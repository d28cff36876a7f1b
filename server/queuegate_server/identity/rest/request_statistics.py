"""Records the requests to an identity provider, for metrics and `source-check`."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class RequestStep:
    """A request, with its result."""

    name: str
    """What was requested."""
    seconds: float = 0.0
    detail: str = ""
    """A description of the result."""
    fault: str = ""
    """The reason for a failure; empty on success."""
    advice: str = ""
    is_throttled: bool = False
    """Whether the provider refused the request because of its rate limits."""


StepObserver = Callable[[RequestStep], None]
"""Called with each request that was sent, successful or not."""


@dataclass(slots=True)
class RequestCount:
    """How often a request succeeded, failed and was throttled, and the total time it took."""

    success: int = 0
    failure: int = 0
    throttled: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class RequestStatistics:
    """The resolver's counters since its creation. `observe/metrics.toml` describes them."""

    requests: dict[str, RequestCount] = field(default_factory=dict)
    """The counters for each kind of request."""

    def count(self, step: RequestStep) -> None:
        """Count a request and add its duration."""
        count = self.requests.setdefault(step.name, RequestCount())
        count.seconds += step.seconds
        if step.is_throttled:
            count.throttled += 1
        elif step.fault:
            count.failure += 1
        else:
            count.success += 1
