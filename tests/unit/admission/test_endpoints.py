"""How long a handler of a further endpoint may take."""

import pytest

from queuegate_server.admission.process import GRACE_SECONDS
from queuegate_server.admission.server.endpoints import MAX_SECONDS, seconds_to_answer


@pytest.mark.parametrize(
    ("timeout", "expected"),
    [
        (None, 8.5),
        ("10s", 8.5),
        ("30s", 28.5),
        ("1m0s", 28.5),
        ("1h", 28.5),
        ("5s", 3.5),
        ("1s", 0.5),
        ("500ms", 0.25),
        ("0s", 8.5),
        ("", 8.5),
        ("-5s", 8.5),
        ("soon", 8.5),
        ("9" * 400 + "s", 8.5),
    ],
)
def test_seconds_to_answer(timeout: str | None, expected: float) -> None:
    assert seconds_to_answer(timeout) == expected


def test_reviews_can_finish_before_shutdown() -> None:
    assert seconds_to_answer("1h") < MAX_SECONDS <= GRACE_SECONDS
