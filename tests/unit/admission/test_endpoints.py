"""How long a handler of a further endpoint may take."""

from queuegate_server.admission.server.endpoints import seconds_to_answer
from queuegate_server.admission.server.webhook_limits import GRACE_SECONDS, MAX_TIMEOUT_SECONDS
from tests.support.rows import rows


@rows
def test_seconds_to_answer(timeout: str | None, expected: float) -> None:
    assert seconds_to_answer(timeout) == expected


def test_reviews_can_finish_before_shutdown() -> None:
    assert seconds_to_answer("1h") < MAX_TIMEOUT_SECONDS <= GRACE_SECONDS
