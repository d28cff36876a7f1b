"""A few seconds of what `make history` does for half an hour: no answer without an explanation."""

import pytest

from tests.resilience.history import rounds


@pytest.mark.parametrize(("transport", "workers"), [("grpcio", 1), ("native", rounds.WORKERS)])
def test_some_order_of_events_explains_all_answers(transport: str, workers: int) -> None:
    one = rounds.run(5, transport=transport, workers=workers, restarts=1)
    assert [violation for _, violation in one.violations] == []
    assert one.calls["OK"] > 20
    assert one.events["invalidations"]
    assert one.events["kills of the server"] == 1


def test_some_order_of_events_explains_the_answers_of_all_replicas() -> None:
    one = rounds.run(10, fleet=True)
    assert [violation for _, violation in one.violations] == []
    assert len(one.histories) >= 3
    assert all(any(call.status == "OK" for call in each.calls) for each in one.histories[:3])
    assert one.events["invalidations"]
