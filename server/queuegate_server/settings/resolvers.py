"""Resolvers in the settings: a type, and the options of this type."""

from collections.abc import Mapping
from typing import Final

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from queuegate_server.identity.registry import (
    BrokenResolverType,
    ConfiguredResolver,
    UnknownResolverType,
    options_model,
    types,
)

TYPE: Final = "type"


def configured_resolver(value: object) -> object:
    """Validate a resolver with the options model of its `type`.

    Errors carry the location of the option, as in any other section.
    """
    if isinstance(value, ConfiguredResolver):
        return value
    if not isinstance(value, Mapping | None):
        raise PydanticCustomError("model_type", "must be a section of keys and values")
    options = dict(value or {})
    name = options.pop(TYPE, None)
    if not name:
        known = ", ".join(sorted(types()))
        raise _wrong_type("missing", f"is required: choose one of {known}")
    try:
        model = options_model(str(name))
    except (UnknownResolverType, BrokenResolverType) as error:
        raise _wrong_type("resolver_type", str(error)) from None
    return ConfiguredResolver(str(name), model.model_validate(options))


def _wrong_type(code: str, message: str) -> ValidationError:
    # Braces in the text are not placeholders.
    error = PydanticCustomError(code, "{message}", {"message": message})
    return ValidationError.from_exception_data(
        "resolver", [InitErrorDetails(type=error, loc=(TYPE,), input=None)]
    )
