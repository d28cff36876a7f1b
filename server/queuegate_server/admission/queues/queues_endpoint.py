"""The webhook's /queues endpoint."""

import logging
from typing import Final

from queuegate_server.admission.queues.model import QueueReview
from queuegate_server.admission.queues.review_decider import CannotDecide
from queuegate_server.admission.queues.reviewer import QueueReviewer
from queuegate_server.admission.server.endpoints import Answer
from queuegate_server.admission.server.review import AdmissionResponse, write_review

_LOG = logging.getLogger("queuegate_server.admission.queues")
_MAX_LOGGED: Final = 1_000


class QueueEndpoint:
    """Answers requests to /queues; see `endpoints.Handle`."""

    def __init__(self, reviewer: QueueReviewer) -> None:
        self._reviewer = reviewer

    async def __call__(self, body: bytes, *, verified: bool, deadline: float) -> Answer:
        """Answer a request. Raises MalformedReview, and CannotDecide."""
        try:
            review, response = await self._reviewer.review(
                body, verified=verified, deadline=deadline
            )
        except CannotDecide as error:
            _LOG.warning("cannot decide", extra={"reason": str(error)[:_MAX_LOGGED]})
            raise
        if not response.allowed:
            _log_denial(review, response)
        outcome = "allowed" if response.allowed else "denied"
        return Answer(write_review(review.uid, response), outcome)


def _log_denial(review: QueueReview, response: AdmissionResponse) -> None:
    _LOG.info(
        "refused",
        extra={
            "uid": review.uid[:_MAX_LOGGED],
            "user": review.user[:_MAX_LOGGED],
            "kind": review.kind[:_MAX_LOGGED],
            "namespace": review.namespace[:_MAX_LOGGED],
            "reason": response.message[:_MAX_LOGGED],
        },
    )
