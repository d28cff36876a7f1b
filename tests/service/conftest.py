"""Both clients, one after the other."""

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import queuegate
from tests.client_calls import Ask


@pytest.fixture(params=["blocking", "asyncio"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Ask]]:
    """Make a client of one kind or the other, and call its methods by name."""
    kind = queuegate.Client if request.param == "blocking" else queuegate.aio.Client
    made: list[Ask] = []

    def make(address: str, **settings: Any) -> Ask:
        client = kind(address, **settings)

        async def call(method: str, *args: Any, **kwargs: Any) -> Any:
            result = getattr(client, method)(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        made.append(call)
        return call

    yield make
    for call in made:
        await call("close")
