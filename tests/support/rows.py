"""Tables of test cases in YAML, beside the tests that read them.

The file `rows/NAME.yaml` has the cases of `test_NAME.py`: for each test, the arguments of each of
its runs. They are converted to the types with which the test declares them, so that a list may
become a tuple, or a text a member of an enumeration.
"""

import copy
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml
from pydantic import TypeAdapter

_MAX_ID = 60


def rows(function: Callable[..., Any]) -> Any:
    """Run a test once for each of its rows. The optional member `id` of a row names the run."""
    cases = _read(_rows_of(Path(function.__code__.co_filename)))[function.__qualname__]
    hints = get_type_hints(function)
    names = [name for name in cases[0] if name != "id"]
    types = {name: TypeAdapter(hints[name]) for name in names}
    values = [
        pytest.param(
            *(types[name].validate_python(_kind(case[name], hints[name])) for name in names),
            id=_id(case, number),
        )
        for number, case in enumerate(cases)
    ]
    return pytest.mark.parametrize(names, values)(function)


def table(file: str, name: str) -> Any:
    """Return another table from the file with the rows of a test.

    Args:
        file: The file with the test: `__file__`.
        name: The name of the table in the file with the rows.
    """
    return copy.deepcopy(_read(_rows_of(Path(file)))[name])


def _rows_of(path: Path) -> Path:
    return path.parent / "rows" / f"{path.stem.removeprefix('test_')}.yaml"


@functools.cache
def _read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def _kind(value: object, hint: object) -> object:
    """Return a value of a row; the group and kind in `batch/Job`, if the test wants both."""
    if hint == tuple[str, str] and isinstance(value, str):
        group, _, kind = value.rpartition("/")
        return group, kind
    return value


def _id(case: dict[str, Any], number: int) -> str:
    """Return the name of a run: its number and the texts in its row."""
    if "id" in case:
        return str(case["id"])
    texts = [str(number), *(each for each in case.values() if isinstance(each, str) and each)]
    return "-".join(texts)[:_MAX_ID]
