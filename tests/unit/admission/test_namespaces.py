"""The lookup of namespaces: remembered, asked once, and never guessed."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from queuegate_server.admission.annotations import namespaces
from queuegate_server.admission.annotations.namespaces import (
    NamespaceCache,
    NamespaceError,
    fetch_annotations,
)
from queuegate_server.admission.kubernetes_api import KubernetesApi
from tests.support.fakes.kubernetes_api import FakeApiServer


class Source:
    """Answers with a number that grows, or fails."""

    def __init__(self) -> None:
        self.asked = 0
        self.failing = False
        self.now = 0.0
        self.cached = NamespaceCache(self.fetch, lambda: self.now)

    def fetch(self, namespace: str) -> Mapping[str, str]:
        self.asked += 1
        if self.failing:
            raise NamespaceError("down")
        return {namespace: str(self.asked)}


async def test_fresh_answers_are_remembered() -> None:
    source = Source()
    assert await source.cached.annotations("a") == {"a": "1"}
    source.now = 29.9
    assert await source.cached.annotations("a") == {"a": "1"}
    assert await source.cached.annotations("b") == {"b": "2"}
    source.now = 30.1
    assert await source.cached.annotations("a") == {"a": "3"}


async def test_an_old_answer_serves_while_none_can_be_had() -> None:
    source = Source()
    await source.cached.annotations("a")
    source.failing = True
    source.now = 599
    assert await source.cached.annotations("a") == {"a": "1"}
    source.now = 601
    with pytest.raises(NamespaceError):
        await source.cached.annotations("a")
    source.failing = False
    assert await source.cached.annotations("a") == {"a": "4"}


async def test_all_who_ask_at_once_are_answered_by_one_question() -> None:
    gate = threading.Event()
    asked = []

    def fetch(namespace: str) -> Mapping[str, str]:
        asked.append(namespace)
        gate.wait(60)
        return {"x": "y"}

    cached = NamespaceCache(fetch, lambda: 0.0)
    waiting = [asyncio.create_task(cached.annotations("a")) for _ in range(50)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    gate.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [{"x": "y"}] * 49
    assert asked == ["a"]


async def test_a_question_without_an_end_holds_no_review_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(namespaces, "_LOOKUP_SECONDS", 0.1)
    gate = threading.Event()
    hanging = False

    def fetch(namespace: str) -> Mapping[str, str]:
        if hanging:
            gate.wait(100)
        return {"of": namespace}

    now = 0.0
    cached = NamespaceCache(fetch, lambda: now)
    try:
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(NamespaceError):
                    await cached.annotations("a")
                    break
            hanging = True
            now = 31.0
            assert await cached.annotations("a") == {"of": "a"}
            with pytest.raises(NamespaceError, match="did not respond within"):
                await cached.annotations("b")
    finally:
        gate.set()


@pytest.fixture(scope="module")
def api() -> Iterator[FakeApiServer]:
    with FakeApiServer() as running:
        yield running


def test_the_api_server_is_asked(api: FakeApiServer, tmp_path: Path) -> None:
    api.namespaces = {"dev": {"a": "b"}}
    fetch = partial(fetch_annotations, KubernetesApi(api.url, api.write_account(tmp_path), 3))
    assert fetch("dev") == {"a": "b"}
    assert fetch("gone") == {}
    fetch("../../pods?x=#")
    assert api.asked[-1] == "..%2F..%2Fpods%3Fx%3D%23"
    api.failing = True
    with pytest.raises(NamespaceError, match="the API server responded with status 500"):
        fetch("dev")
    api.failing = False
    api.babbling = True
    with pytest.raises(NamespaceError, match="cannot be reached"):
        fetch("dev")
    api.babbling = False
    (tmp_path / "account/token").write_text("wrong")
    with pytest.raises(NamespaceError, match="the API server responded with status 401"):
        fetch("dev")
    with pytest.raises(NamespaceError, match="cannot be reached"):
        fetch_annotations(KubernetesApi("https://127.0.0.1:1", tmp_path / "account", 3), "dev")
    with pytest.raises(NamespaceError, match="cannot be reached"):
        fetch_annotations(KubernetesApi(api.url, tmp_path / "nowhere", 3), "dev")
