"""settings.md: every key, from the models that check the settings."""

import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union

from annotated_types import Ge, Gt, Le, MaxLen
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from docs.generate.markdown import attribute_docs, code, page, paragraph, sentence, table
from queuegate_server.admission.annotations import yunikorn_settings
from queuegate_server.config_fields import Section, seconds, size, written_duration, written_size
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver_types import CHAIN, RESOLVER_TYPES, options_type
from queuegate_server.identity.rest.provider_options import RestOptions
from queuegate_server.settings.admission import Admission, QueueChecks
from queuegate_server.settings.callers import Rights
from queuegate_server.settings.listeners import file_mode
from queuegate_server.settings.model import PartitionSettings, Settings
from queuegate_server.settings.queue_schedulers import (
    CustomPlace,
    KaiScheduler,
    KueueScheduler,
    Schedulers,
    YuniKornScheduler,
)
from queuegate_server.settings.reload import with_changes

_INTRODUCTION: Final = """\
A setting can be given in the file for `queuegate-server serve --config FILE`, in an environment
variable, or on the command line; the command line overrides variables, which override the file:

```yaml
drain:
  grace: 30s
```

```sh
QUEUEGATE_DRAIN__GRACE=30s queuegate-server serve --set drain.grace=30s
```

- Every key is optional unless its default is *required*. Unknown and duplicate keys are errors, and
  every error is reported with file, line and column. A key without a value counts as absent; in
  `admission` it is an error, except that a section may be empty: `kueue:` means `kueue: {}`.
- In a variable, two underscores separate levels. A list or a section is written on one line, in
  YAML or JSON: `--set 'listen=[127.0.0.1:50051, unix:/run/q.sock]'`. It replaces the whole list or
  section in the file.
- A duration has a unit (`250ms`, `30s`, `5m`, `1h30m`, `7d`) or is a number of seconds. A size has
  a unit (`64KiB`, `4MiB`, `1GB`) or is a number of bytes.
- **reload**: *yes* means that SIGHUP (`systemctl reload`) applies a new value;
  `limits.max_concurrent_calls` can be raised only up to its value at startup. All other keys, and
  sections without this column, need a restart; the log names the changed keys that need one. Files
  named in settings (policies, certificates, tokens) are reloaded on change, without a signal.

[`examples/queuegate.yaml`](../../examples/queuegate.yaml) contains every key and its default.
The admission webhook's settings are [below](#the-admission-webhook). [Removed
settings](removed-settings.md) lists settings and options from older versions.
"""
_WEBHOOK: Final = """\
## The admission webhook

Besides the [`admission`](#admission) section, `queuegate-server admission` has [command-line
options](queuegate-server.md#queuegate-server-admission), and reads these keys from the scheduler's
ConfigMaps, or the older environment variables. A key takes precedence over its variable. Changes to
the ConfigMaps apply without a restart. Lists are comma-separated; their elements are Go regular
expressions, which may match anywhere in the text.
"""


_OF_RESOLVERS: Final = """\
`type` is required. Types from other distributions document their own options. All types except
`chain` have these:
"""


class _Section(NamedTuple):
    path: str
    about: str
    fields: Mapping[str, FieldInfo]


class _Marker(int):
    """A value that is recognized wherever it is copied to."""


def generate() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for section in (*_sections("", Settings, {}), *_resolvers()):
        parts += [f"## `{section.path}`" if section.path else "## Top level"]
        parts += [paragraph(section.about)] if section.about else []
        parts += [_table(section)]
    return page("Settings", *parts, _WEBHOOK, _webhook_table())


def _sections(path: str, model: type[BaseModel], seen: dict[type, str]) -> Iterator[_Section]:
    seen[model] = path
    about = "" if model is Settings else _about(model)
    yield _Section(path, about, documented_fields(model))
    for name, field in model.model_fields.items():
        inner, suffix = _model_in(field.annotation)
        if inner is not None and inner not in seen:
            yield from _sections(f"{path}.{name}{suffix}".removeprefix("."), inner, seen)


def documented_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model, with their docstrings as descriptions."""
    docs = {
        key: " ".join(text.split())
        for each in reversed(model.__mro__)
        if issubclass(each, Section) and each is not Section
        for key, text in attribute_docs(each).items()
    }
    for name, field in model.model_fields.items():
        field.description = docs.get(name)
    return model.model_fields


def _resolvers() -> Iterator[_Section]:
    common = documented_fields(ResolverOptions)
    yield _Section("resolvers.NAME", " ".join(_OF_RESOLVERS.split()), common)
    of_providers = _own(RestOptions, common)
    about = "Settings of all resolvers for identity providers, in addition to their own below."
    yield _Section("resolvers.NAME`, `type: entra`, `keycloak` and `okta", about, of_providers)
    for name in (*RESOLVER_TYPES, CHAIN):
        model = options_type(name)
        shared = common
        if issubclass(model, RestOptions):
            shared = documented_fields(RestOptions)
        if own := _own(model, shared):
            yield _Section(f"resolvers.NAME`, `type: {name}", _about(model), own)


def _own(model: type[BaseModel], shared: Mapping[str, FieldInfo]) -> dict[str, FieldInfo]:
    """Return the fields of a model that the shared ones lack, or have with another default."""
    return {
        key: field
        for key, field in documented_fields(model).items()
        if key not in shared or field.default != shared[key].default
    }


def _about(model: type[BaseModel]) -> str:
    text = (inspect.getdoc(model) or "").partition("\n\n")[0]
    return text.partition(" Durations")[0]


def _table(section: _Section) -> str:
    rows = [
        (
            code(field.alias or key),
            _value(field, f"{section.path}.{key}".removeprefix(".")),
            _default(field),
            "yes" if not _has_own_table(field) and _reloads(section.path, key) else "",
            _meaning(field),
        )
        for key, field in section.fields.items()
    ]
    head = ("key", "value", "default", "reload", "meaning")
    if any(row[3] for row in rows):
        return table(head, rows)
    return table([*head[:3], head[4]], ([*row[:3], row[4]] for row in rows))


def _has_own_table(field: FieldInfo) -> bool:
    inner, suffix = _model_in(field.annotation)
    return inner is not None and not suffix


def _meaning(field: FieldInfo) -> str:
    """Return the description; names of keys, and values before a colon, as code."""
    text = field.description or _about_inner(field)
    text = re.sub(r"(?<![`\w])([a-z]+(?:_[a-z0-9]+)+)\b(?!`)", r"`\1`", text)
    for value in _literals(field.annotation):
        text = re.sub(rf"(?<![`\w])({re.escape(value)})(?=[:;,])", r"`\1`", text)
    return sentence(text)


def _literals(annotation: Any) -> tuple[str, ...]:
    if annotation is bool:
        return ("false", "true")
    if typing.get_origin(annotation) is Literal:
        return tuple(map(str, typing.get_args(annotation)))
    return ()


def _about_inner(field: FieldInfo) -> str:
    inner, _ = _model_in(field.annotation)
    assert inner is not None, field
    return _about(inner)


def _model_in(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """Return the model that a field holds, and how it is reached from the field."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _model_in(arguments[0])
    if origin in {Union, UnionType}:
        return _model_in(arguments[0])
    if origin is tuple:
        return _model_in(arguments[0])[0], "[]"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _model_in(arguments[1])[0], ".NAME"
    return None, ""


def _value(field: FieldInfo, path: str) -> str:
    inner, suffix = _model_in(field.annotation)
    if inner is not None or path == "resolvers":
        kind = {"": "section", "[]": "list of sections", ".NAME": "sections by name"}[suffix]
        target = _first_path(inner) if inner else "resolvers.NAME"
        return f"{kind}: [{code(target)}](#{_anchor(target)})"
    kind = _kind(field.annotation, field.metadata)
    return f"{kind}{_bounds(field)}"


def _first_path(model: type[BaseModel]) -> str:
    seen: dict[type, str] = {}
    list(_sections("", Settings, seen))
    return seen.get(model, "resolvers.NAME`, `type: ldap")


def _anchor(path: str) -> str:
    return re.sub(r"[^\w\- ]", "", path.lower()).replace(" ", "-")


def _validators(metadata: list[Any]) -> set[Any]:
    return {each.func for each in metadata if isinstance(each, BeforeValidator)}


_NAMES: Final[Mapping[Any, str]] = {
    seconds: "duration",
    size: "size",
    file_mode: "octal mode",
    bool: "`true`, `false`",
    int: "integer",
    float: "number",
    str: "string",
    Path: "path",
}
"""The names of the values that a validator reads, or that have a type."""


def _kind(annotation: Any, metadata: list[Any]) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0], [*metadata, *arguments[1:]])
    if origin in {Union, UnionType}:
        return _kind(next(each for each in arguments if each is not NoneType), metadata)
    if origin is tuple:
        return f"list of {_plural(_kind(arguments[0], []))}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"by name: {_kind(arguments[1], [])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        arguments = tuple(each.value for each in annotation)
    if arguments:
        return ", ".join(code(each) for each in arguments)
    return next(_NAMES[each] for each in (*_validators(metadata), annotation) if each in _NAMES)


def _plural(kind: str) -> str:
    return {"string": "strings"}.get(kind, kind)


def _bounds(field: FieldInfo) -> str:
    low: Any = next((m.ge for m in field.metadata if isinstance(m, Ge)), None)
    above: Any = next((m.gt for m in field.metadata if isinstance(m, Gt)), None)
    high: Any = next((m.le for m in field.metadata if isinstance(m, Le)), None)
    most = next((m.max_length for m in field.metadata if isinstance(m, MaxLen)), None)
    if most is not None:
        return f", at most {most}"
    if high is None:
        return ""
    least = f"more than {above}" if low is None else _bound(low, field)
    return f", {least} to {_bound(high, field)}"


def _bound(value: Any, field: FieldInfo) -> str:
    """Return a bound, with the thousands of a plain number separated."""
    if _validators(field.metadata) & _NAMES.keys():
        return _written(value, field)
    return f"{value:,}"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined or default is None or isinstance(default, BaseModel):
        return ""
    return code(_written(default, field))


def _written(value: Any, field: FieldInfo) -> str:
    functions = _validators(field.metadata)
    if isinstance(value, bool):
        return str(value).lower()
    if seconds in functions:
        return written_duration(value) if value else "0s"
    if size in functions:
        return written_size(value)
    if file_mode in functions:
        return f"{value:04o}"
    if isinstance(value, tuple | Mapping):
        items = ", ".join(str(getattr(each, "address", each)) for each in value)
        return f"[{items}]" if isinstance(value, tuple) else "{}"
    return f"{value:_g}".replace("_", " ") if isinstance(value, float) else str(value)


def _reloads(path: str, key: str) -> bool:
    """Return whether a reload of the settings applies a changed value, by trying it."""
    keys = [*path.replace("NAME", "default").replace("[]", "").split("."), key]
    keys = [each for each in keys if each]
    if keys[0] in {"resolvers", "listen", "policies"} or keys == ["partitions"]:
        return False
    if keys[:2] == ["ops", "tls"] or keys[-1] == "places":  # not set by default, or a list
        return False
    schedulers = Schedulers(
        yunikorn=YuniKornScheduler(),
        kueue=KueueScheduler(),
        kai=KaiScheduler(below="root.kai"),
        places=(CustomPlace(label="example.com/queue"),),
    )
    queues = QueueChecks(schedulers=schedulers)
    running = Settings(
        partitions={"default": PartitionSettings()}, admission=Admission(queues=queues)
    )
    marker = _Marker(1)
    read = _replaced(running, keys, marker)
    if read is None:  # the section is not set by default
        return False
    found: Any = with_changes(running, read)
    for each in keys:
        found = found[0] if isinstance(found, tuple) else found
        found = found[each] if isinstance(found, Mapping) else getattr(found, each)
    return found is marker


def _replaced(value: Any, keys: list[str], leaf: object) -> Any:
    """Return a copy with another value at the end of a path; None if a section is not set."""
    if not keys:
        return leaf
    if isinstance(value, tuple):
        return (_replaced(value[0], keys, leaf),) if value else None
    if not isinstance(value, Mapping | BaseModel):
        return None
    key, *rest = keys
    if isinstance(value, Mapping):
        return {**value, key: _replaced(value.get(key, Rights()), rest, leaf)}
    replaced = _replaced(getattr(value, key), rest, leaf)
    return None if replaced is None else value.model_copy(update={key: replaced})


def _webhook_table() -> str:
    meanings = attribute_docs(yunikorn_settings.YuniKornSettings)
    rows = [
        (key, variable, "`true`, `false`", str(default).lower(), meanings[field])
        for field, (key, variable, default) in yunikorn_settings.BOOLEANS.items()
    ] + [
        (key, variable, "list", default, meanings[field])
        for field, (key, variable, default) in yunikorn_settings.LISTS.items()
    ]
    return table(
        ("key and variable", "value", "default", "meaning"),
        (
            (
                "<br>".join(map(code, filter(None, (key, variable)))),
                *(kind, code(default), sentence(meaning)),
            )
            for key, variable, kind, default, meaning in rows
        ),
    )
