"""The face of the package: names, signatures, and what an import costs."""

import ast
import inspect
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import queuegate
from queuegate import exceptions

CLIENT = Path(__file__).resolve().parents[3] / "client"


def test_exported_names_are_sorted_and_there() -> None:
    assert queuegate.__all__ == sorted(queuegate.__all__)
    for name in queuegate.__all__:
        assert getattr(queuegate, name) is not None


def test_nothing_public_is_left_out() -> None:
    public = {
        name
        for name, value in vars(queuegate).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and name not in {"import_module", "TYPE_CHECKING", "Any"}
    }
    assert public <= set(queuegate.__all__)
    assert set(exceptions.__all__) <= set(queuegate.__all__)


def test_dir_shows_what_is_public_and_nothing_else() -> None:
    shown = {name for name in dir(queuegate) if not name.startswith("__")}
    assert shown == set(queuegate.__all__)
    assert {"__doc__", "__all__", "__file__"} <= set(dir(queuegate))


def test_exceptions_export_all_they_define() -> None:
    defined = {
        name
        for name, value in vars(exceptions).items()
        if isinstance(value, type) and value.__module__ == exceptions.__name__
    }
    assert set(exceptions.__all__) == defined


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        _ = queuegate.nosuch


def methods(kind: type) -> dict[str, Any]:
    return {
        name: value
        for name, value in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_both_clients_have_the_same_face() -> None:
    blocking, asynchronous = methods(queuegate.Client), methods(queuegate.aio.Client)
    assert list(blocking) == list(asynchronous)
    assert "check" in blocking
    blocking["__init__"] = queuegate.Client.__init__
    asynchronous["__init__"] = queuegate.aio.Client.__init__
    for name, method in blocking.items():
        signature = str(inspect.signature(asynchronous[name]))
        if name == "__init__":
            of_asyncio, of_blocking = (
                inspect.formatannotation(
                    inspect.signature(each[name]).parameters["interceptors"].annotation
                )
                for each in (asynchronous, blocking)
            )
            assert "grpc.aio" in of_asyncio
            signature = signature.replace(of_asyncio, of_blocking)
        is_iterator = inspect.isasyncgenfunction(asynchronous[name])
        assert str(inspect.signature(method)) == signature.replace("AsyncIterator", "Iterator"), (
            name
        )
        if name != "__init__":
            assert is_iterator or inspect.iscoroutinefunction(asynchronous[name])
            text = inspect.getdoc(asynchronous[name]) or ""
            assert inspect.getdoc(method) == text.replace("await ", "").replace("async for", "for")


def test_the_blocking_methods_are_those_of_asyncio_without_await(tmp_path: Path) -> None:
    program = CLIENT / "generate_blocking.py"
    subprocess.run([sys.executable, program, tmp_path], check=True, timeout=60)
    written = sorted(each.relative_to(tmp_path) for each in tmp_path.rglob("*.py"))
    assert len(written) == 7
    for name in written:
        committed = ast.parse((CLIENT / "queuegate" / name).read_text())
        fresh = ast.parse((tmp_path / name).read_text())
        assert ast.dump(committed) == ast.dump(fresh), "run `make blocking`"


def test_no_message_of_the_contract_is_in_a_signature() -> None:
    for name in queuegate.__all__:
        value = getattr(queuegate, name)
        members = methods(value).values() if inspect.isclass(value) else ()
        for text in map(str, map(inspect.signature, members)):
            assert "pb2" not in text
            assert "grpc" not in text


@pytest.mark.parametrize(
    "statement",
    [
        "import queuegate; queuegate.Decision",
        "import queuegate.cli; queuegate.cli.main(['check', '--help'])",
    ],
)
def test_grpc_is_imported_only_when_a_client_is_made(statement: str) -> None:
    program = (
        f"{statement}\nimport sys\nassert not {{'grpc', 'google', 'asyncio'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_policy_core_needs_only_the_standard_library() -> None:
    program = (
        "import pkgutil, sys\n"
        "from importlib import import_module\n"
        "before = set(sys.modules)\n"
        "import queuegate.policy\n"
        "for module in pkgutil.iter_modules(queuegate.policy.__path__):\n"
        "    import_module(f'queuegate.policy.{module.name}')\n"
        "loaded = {name.partition('.')[0] for name in sys.modules.keys() - before}\n"
        "assert loaded - sys.stdlib_module_names == {'queuegate'}, loaded\n"
        "ours = {name for name in sys.modules if name.startswith('queuegate.')}\n"
        "assert all(name.startswith('queuegate.policy') for name in ours), ours\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_client_is_imported_when_it_is_named() -> None:
    program = (
        "import queuegate, sys\n"
        "queuegate.Client\n"
        "assert 'grpc' in sys.modules\n"
        "assert 'click' not in sys.modules\n"
        "assert queuegate.aio.Client is not queuegate.Client\n"
        "from queuegate import Client, aio\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
