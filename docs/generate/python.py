"""python.md: the public names of the Python client, from their docstrings."""

import ast
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

import queuegate
from docs.generate.markdown import attribute_docs, code, page, paragraph, sentence, table
from queuegate import aio, user_info

_INTRODUCTION: Final = """\
`pip install queuegate` installs the client, which needs Python 3.11 or newer, together with grpcio,
protobuf, googleapis-common-protos and click. `queuegate.policy`, the code that makes decisions,
needs only the standard library.
"""
_EXCEPTIONS: Final = """\
## Exceptions

Every call raises a subclass of `queuegate.QueuegateError` if there is no answer: see
[errors](errors.md#exceptions-of-the-python-client).
"""
_HEADING: Final = re.compile(r"^(Args|Attributes|Returns|Raises|Example):$", re.MULTILINE)
_ENTRY: Final = re.compile(r"^(\w+): ((?:.|\n(?= ))*)", re.MULTILINE)


def generate() -> str:
    """Return the page."""
    kinds = [
        each
        for each in (getattr(queuegate, name) for name in queuegate.__all__)
        if isinstance(each, type)
        and not issubclass(each, queuegate.QueuegateError)
        and each not in {queuegate.Client, queuegate.Gate}
    ]
    values = [each for each in kinds if issubclass(each, Enum)]
    others = [each for each in kinds if not issubclass(each, Enum)]
    return page(
        "The Python API",
        _INTRODUCTION,
        *_documented(queuegate),
        "## `queuegate.Client`",
        *_documented(queuegate.Client),
        *_methods(queuegate.Client),
        "## `queuegate.aio.Client`",
        *_documented(aio.Client),
        "## `queuegate.Gate`",
        *_documented(queuegate.Gate),
        *_methods(queuegate.Gate),
        "## `queuegate.aio.Gate`",
        *_documented(aio.Gate),
        "## `queuegate.log_decision`",
        code(f"log_decision{_signature(queuegate.log_decision)}"),
        *_documented(queuegate.log_decision),
        _EXCEPTIONS,
        "## Questions, answers and settings",
        "All of these are immutable.",
        *(part for each in others for part in _class(each)),
        "## Values",
        "Each value is a `str`: `Access.SUBMIT == 'submit'`.",
        *(part for each in values for part in _class(each)),
        "## `queuegate.user_info`",
        *_documented(user_info),
        *_class(user_info.UserInfo),
        *(
            part
            for each in (
                user_info.from_pod,
                user_info.queue_of,
                user_info.provided_queue,
                user_info.parse,
                user_info.build,
            )
            for part in _function(each)
        ),
    )


def _documented(documented: object) -> Iterator[str]:
    """Yield the docstring as Markdown."""
    text = inspect.getdoc(documented) or ""
    summary, *rest = _HEADING.split(text)
    for part in re.split(r"\n{2,}", summary.strip()):
        yield _prose(part)
    for heading, body in zip(rest[::2], rest[1::2], strict=True):
        yield from _section(heading, inspect.cleandoc(f"\n{body}"))


def _prose(part: str) -> str:
    lines = inspect.cleandoc(f"\n{part}")
    return f"```python\n{lines}\n```" if lines.startswith(">>>") else paragraph(lines)


def _section(heading: str, body: str) -> Iterator[str]:
    if heading == "Example":
        yield f"```python\n{body}\n```"
    elif heading == "Returns":
        yield paragraph(f"**Returns** {body[0].lower()}{body[1:]}")
    elif heading == "Raises":
        found = (f"- `{name}`: {' '.join(text.split())}" for name, text in _ENTRY.findall(body))
        yield "\n".join(["**Raises**", "", *found])
    else:
        name = "argument" if heading == "Args" else "attribute"
        rows = [(code(name), sentence(text)) for name, text in _ENTRY.findall(body)]
        yield table((name, "meaning"), rows)


def _methods(kind: type) -> Iterator[str]:
    """Yield the constructor, and the methods in the order of the source."""
    yield code(f"{kind.__name__}{_signature(kind)}")
    yield from _documented(vars(kind)["__init__"])
    # A gate has only the methods that differ; those of a client are in the bases of its base.
    base = kind.__mro__[1]
    members = [item for each in (base, *base.__bases__) for item in vars(each).items()]
    for name, each in (*members, ("close", vars(kind)["close"])):
        if name.startswith("_"):
            continue
        if isinstance(each, property):
            yield f"### `{kind.__name__}.{name}`"
            yield from _documented(each)
        if inspect.isfunction(each):
            yield f"### `{kind.__name__}.{name}`"
            yield from _function(each)


def _function(function: Any) -> Iterator[str]:
    if "." not in function.__qualname__:
        yield f"### `user_info.{function.__name__}`"
    yield code(f"{function.__name__}{_signature(function)}")
    yield from _documented(function)


def _signature(called: Any) -> str:
    """Return the parameters with their defaults; the types are in the docstring's words."""
    signature = inspect.signature(called)
    parameters = [
        each.replace(
            annotation=inspect.Parameter.empty,
            default=str(each.default) if isinstance(each.default, Enum) else each.default,
        )
        for name, each in signature.parameters.items()
        if name != "self"
    ]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def _class(kind: type) -> Iterator[str]:
    yield f"### `{kind.__name__}`"
    yield from _documented(kind)
    meanings = attribute_docs(kind)
    names = (
        {each.name: f"`{each.value}`" for each in kind}
        if issubclass(kind, Enum)
        else dict.fromkeys(_fields(kind), "")
    )
    yield table(
        ("value" if issubclass(kind, Enum) else "attribute", "meaning"),
        ((code(name), sentence(meanings[name])) for name in names),
    )


def _fields(kind: type) -> list[str]:
    """Return the annotated attributes of a class, in their order."""
    (definition,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(definition, ast.ClassDef)
    return [
        each.target.id
        for each in definition.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]
