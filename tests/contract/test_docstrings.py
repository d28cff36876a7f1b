"""The docstrings of the Python client: complete, with examples that run against a server."""

import ast
import asyncio
import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import queuegate
import queuegate.exceptions
from queuegate import aio, user_info
from tests.support.servers.queuegate_server import ADMIN, running_server


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_server("--policy", "examples/queues.yaml", *ADMIN) as server:
        yield server.address


@pytest.fixture
def names(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names that the examples use without saying where they come from."""
    monkeypatch.setenv("QUEUEGATE_ADDRESS", address)
    with queuegate.Client(timeout=60) as client:
        yield {"queuegate": queuegate, "user_info": user_info, "aio": aio, "client": client}


def examples(*documented: object) -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(recurse=False)
    return [
        test
        for each in documented
        for test in finder.find(each, getattr(each, "__name__", "module"), globs={})
        if test.examples
    ]


def methods(kind: type) -> list[FunctionType]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return [each for name, each in found if not name.startswith("_")]


def public() -> list[object]:
    """What `import queuegate` gives, and the functions of `user_info`."""
    found = [getattr(queuegate, name) for name in queuegate.__all__]
    return [
        queuegate,
        aio.Client,
        user_info,
        *(each for each in found if isinstance(each, type)),
        *(user_info.parse, user_info.build, user_info.from_pod, user_info.UserInfo),
        *(user_info.queue_of, user_info.provided_queue),
    ]


def check(test: doctest.DocTest, names: dict[str, Any]) -> None:
    test.globs |= names
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=printed.append)
    assert not runner.failures, "".join(printed)


@pytest.mark.parametrize("method", methods(queuegate.Client), ids=lambda each: each.__name__)
def test_methods(method: FunctionType, names: dict[str, Any]) -> None:
    text = inspect.getdoc(method) or ""
    for name in list(inspect.signature(method).parameters)[1:]:
        assert re.search(rf"^    {name}: ", text, re.MULTILINE), name
    if method is not queuegate.Client.close:
        assert re.findall(r"^(\w+):$", text, re.MULTILINE) == [
            *(("Args",) if len(inspect.signature(method).parameters) > 1 else ()),
            "Returns",
            "Raises",
            "Example",
        ]
        (test,) = examples(method)
        check(test, names)


@pytest.mark.parametrize(
    "test",
    examples(*public()),
    ids=lambda test: f"{Path(str(test.filename)).stem}.{test.name}",
)
def test_others(test: doctest.DocTest, names: dict[str, Any]) -> None:
    check(test, names)


@pytest.mark.parametrize(
    "documented",
    [each for each in public() if not isinstance(each, ModuleType)],
    ids=lambda each: f"{each.__module__}.{each.__name__}",
)
def test_everything_public_is_documented(documented: Any) -> None:
    assert re.match(r"[A-Z].*\.", (inspect.getdoc(documented) or "").replace("\n", " "))


def test_examples_of_asyncio(names: dict[str, Any], address: str) -> None:
    """They have `await` at the top level, which doctest does not know."""

    async def run() -> None:
        async with aio.Client(address, timeout=60) as client:
            for test in examples(*methods(aio.Client)):
                known = {**names, "client": client}
                for example in test.examples:
                    code = compile(
                        example.source, test.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
                    )
                    if (done := FunctionType(code, known)()) is not None:
                        await done

    asyncio.run(run())
    found = {test.name for test in examples(*methods(aio.Client))}
    assert found == {each.__name__ for each in methods(aio.Client)} - {"close"}
