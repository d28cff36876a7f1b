"""The webhook's endpoints, with handlers that decode the request body themselves."""

from typing import Final, NamedTuple, Protocol

from pydantic_core import PydanticCustomError

from queuegate_server.admin.bodies import BodyLimits
from queuegate_server.admission.server.webhook_limits import (
    DEFAULT_TIMEOUT_SECONDS,
    LARGE_BODY_SECONDS,
    LARGE_BODY_WAIT_SECONDS,
    MAX_BODY_BYTES,
    MAX_TIMEOUT_SECONDS,
    SMALL_BODY_BYTES,
    SMALL_BODY_ENTRIES,
    SMALL_BODY_SECONDS,
    TIMEOUT_MARGIN_SECONDS,
)
from queuegate_server.config_fields import seconds

REVIEWS: Final = BodyLimits(
    MAX_BODY_BYTES,
    SMALL_BODY_BYTES,
    SMALL_BODY_ENTRIES,
    SMALL_BODY_SECONDS,
    LARGE_BODY_SECONDS,
    LARGE_BODY_WAIT_SECONDS,
)
"""The limits on reviews."""


class Answer(NamedTuple):
    """A handler's response."""

    content: bytes
    """The JSON text, sent with status 200."""
    outcome: str
    """The outcome for the metric queuegate_admission_reviews."""


class Handle(Protocol):
    """Answers a request. Raises MalformedReview for status 400, RequestRefusal for another status.

    Any other exception is logged, and answered with status 500.
    """

    async def __call__(self, body: bytes, *, verified: bool, deadline: float) -> Answer:
        """Answer a request.

        Args:
            body: The request body.
            verified: Whether the client presented a certificate that the settings accept.
            deadline: When the answer must be ready, in seconds of the event loop's clock, as in
                `asyncio.timeout_at`.
        """


class Endpoint(NamedTuple):
    """A path and its handler."""

    path: str
    handle: Handle
    is_cancelled: bool = True
    """Whether the handler is cancelled if it has not answered soon after the deadline."""


def seconds_to_answer(timeout: str | None) -> float:
    """Return how many seconds a handler may take.

    Args:
        timeout: The query parameter `timeout` with which the API server states its time limit,
            such as `10s`. Unless it is a positive duration, the API server's default applies.
    """
    limit = DEFAULT_TIMEOUT_SECONDS
    if timeout is not None:
        try:
            limit = min(seconds(timeout), MAX_TIMEOUT_SECONDS) or DEFAULT_TIMEOUT_SECONDS
        except PydanticCustomError:
            limit = DEFAULT_TIMEOUT_SECONDS
    return max(limit - TIMEOUT_MARGIN_SECONDS, limit / 2)
