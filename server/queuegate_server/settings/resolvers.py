"""A resolver of the settings: its type, and the options that this type knows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.registry import (
    BrokenResolverType,
    UnknownResolverType,
    options_model,
    types,
)

TYPE: Final = "type"


@dataclass(frozen=True, slots=True)
class ConfiguredResolver:
    """What to build a resolver from."""

    type: str
    options: ResolverOptions


def configured_resolver(value: object) -> object:
    """Check the options against the model of the type that the key `type` names.

    Faults are located at the options themselves, as in any other section.
    """
    if isinstance(value, ConfiguredResolver):
        return value
    if not isinstance(value, Mapping | None):
        raise PydanticCustomError("model_type", "not a section")
    options = dict(value or {})
    name = options.pop(TYPE, None)
    if not name:
        known = ", ".join(sorted(types()))
        raise _wrong_type("missing", f"is required; there are {known}")
    try:
        model = options_model(str(name))
    except (UnknownResolverType, BrokenResolverType) as error:
        raise _wrong_type("resolver_type", str(error)) from None
    return ConfiguredResolver(str(name), model.model_validate(options))


def _wrong_type(code: str, message: str) -> ValidationError:
    # The text may hold braces; they are no places to fill in.
    error = PydanticCustomError(code, "{message}", {"message": message})
    return ValidationError.from_exception_data(
        "resolver", [InitErrorDetails(type=error, loc=(TYPE,), input=None)]
    )
