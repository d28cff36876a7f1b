"""values.schema.json of the Helm chart: the part for the server's settings, from their models."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from queuegate_server import config_fields
from queuegate_server.identity.resolver_types import CHAIN, RESOLVER_TYPES, options_type
from queuegate_server.settings.model import RESOLVER_TYPE, Settings

SCHEMA: Final = Path("deploy/helm/queuegate/values.schema.json")

_PREFIX: Final = "settings."
"""The prefix of the names of generated definitions; the others are written by hand."""
_DRAFT: Final = "#/$defs/"
_ABOUT: Final = {"title", "description", "default", "format"}
_BOUNDS: Final = {"ge": "minimum", "le": "maximum"}
"""The bounds of durations and sizes, such as `30s` and `4MiB`; as numbers only."""
_NULL: Final = {"type": "null"}
_KINDS: Final = {"number": "duration", "integer": "size"}
_PATTERNS: Final = {"duration": config_fields._DURATION, "size": config_fields._SIZE}
_MAX_COLUMNS: Final = 100
_ONE_OR_MORE: Final = {"member_attribute", "user_base"}
"""Keys whose value may be a single string instead of a list."""


def generate() -> str:
    """Return the file with the schema of the settings."""
    values = json.loads(SCHEMA.read_text(encoding="utf-8"))
    written = {
        name: definition
        for name, definition in values["definitions"].items()
        if not name.startswith(_PREFIX)
    }
    values["definitions"] = {**written, **_definitions()}
    return f"{_written(values, '')}\n"


def _written(value: Any, indent: str) -> str:
    """Return JSON, with one item per line in each value that does not fit on one line."""
    line = json.dumps(value)
    if len(indent) + len(line) < _MAX_COLUMNS or not isinstance(value, dict | list):
        return line
    inner = f"{indent}  "
    if isinstance(value, list):
        items = [_written(each, inner) for each in value]
    else:
        items = [f"{json.dumps(key)}: {_written(each, inner)}" for key, each in value.items()]
    start, end = "[]" if isinstance(value, list) else "{}"
    lines = f",\n{inner}".join(items)
    return f"{start}\n{inner}{lines}\n{indent}{end}"


def _definitions() -> dict[str, Any]:
    models = {"Settings": Settings.model_json_schema()}
    cases = []
    for name in sorted((*RESOLVER_TYPES, CHAIN)):
        schema = options_type(name).model_json_schema()
        schema["properties"][RESOLVER_TYPE] = {"type": "string"}
        models[f"resolver.{name}"] = schema
        this = {"properties": {RESOLVER_TYPE: {"const": name}}, "required": [RESOLVER_TYPE]}
        cases.append({"if": this, "then": {"$ref": f"{_DRAFT}resolver.{name}"}})
    inner: dict[str, Any] = {}
    for schema in models.values():
        inner |= schema.pop("$defs", {})
    # Other distributions may add types, with options of their own.
    inner["ConfiguredResolver"] = {
        "type": "object",
        "required": [RESOLVER_TYPE],
        "properties": {RESOLVER_TYPE: {"type": "string", "minLength": 1}},
        "allOf": cases,
    }
    used = _reachable("Settings", {**inner, **models})
    made = {name: _draft_7(schema) for name, schema in used.items()}
    made["Mode"] = {"enum": [*made["Mode"]["enum"], False]}  # Helm reads `off` as a boolean
    for name in _reachable("Admission", used):
        made[name] = _without_null(made[name])
    for kind, name in _KINDS.items():
        made[name] = {"type": [kind, "string"], "pattern": f"^(?:{_PATTERNS[name].pattern})$"}
    return {f"{_PREFIX}{name}": schema for name, schema in sorted(made.items())}


def _reachable(name: str, schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schemas that one of them refers to, and itself."""
    found: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        this = waiting.pop()
        if this not in found:
            found[this] = schemas[this]
            waiting += _references(schemas[this])
    return found


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for each in schema for name in _references(each)]
    if not isinstance(schema, dict):
        return []
    names = [name for each in schema.values() for name in _references(each)]
    return [*names, schema["$ref"].removeprefix(_DRAFT)] if "$ref" in schema else names


def _draft_7(schema: Any) -> Any:
    """Return a pydantic schema as one that Helm can read, for values as a file contains them."""
    if isinstance(schema, list):
        return [_draft_7(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": f"#/definitions/{_PREFIX}{schema['$ref'].removeprefix(_DRAFT)}"}
    if _NULL in schema.get("anyOf", ()):
        (kind,) = (each for each in schema["anyOf"] if each != _NULL)
        return _or_null(_draft_7(kind))
    made: dict[str, Any] = {
        key: _properties(value) if key in {"properties", "patternProperties"} else _draft_7(value)
        for key, value in schema.items()
        if key not in _ABOUT
    }
    if "patternProperties" in made:
        made["additionalProperties"] = False
    if made.get("type") == "array" and "minLength" in made:
        made["minItems"] = made.pop("minLength")
        made.pop("maxLength", None)
    if _BOUNDS.keys() & made.keys():
        kind = _KINDS[made.pop("type")]
        bounds = {_BOUNDS.get(key, key): value for key, value in made.items()}
        return {"allOf": [{"$ref": f"#/definitions/{_PREFIX}{kind}"}], **bounds}
    return made


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a section where only sections may be null, as the server reads it."""
    properties = dict(schema.get("properties", {}))
    for name, each in properties.items():
        if each.get("anyOf", ())[1:] == [_NULL] and "$ref" in each["anyOf"][0]:
            is_section = not each["anyOf"][0]["$ref"].endswith(f"{_PREFIX}Mode")
            properties[name] = each if is_section else each["anyOf"][0]
        elif "null" in each.get("type", ()):
            properties[name] = {**each, "type": next(kind for kind in each["type"] if kind)}
    return {**schema, "properties": properties} if properties else schema


def _properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    made = {name: _draft_7(schema) for name, schema in properties.items()}
    for name in _ONE_OR_MORE & made.keys():
        made[name]["type"] = ["array", "string"]
    return made


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "type" not in schema:
        return {"anyOf": [schema, _NULL]}
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    made = {**schema, "type": [*kinds, "null"]}
    if "enum" in made:
        made["enum"] = [*made["enum"], None]
    return made
