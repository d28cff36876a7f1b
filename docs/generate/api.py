"""api.md: the services and messages, from the comments of the contract."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
    ServiceDescriptorProto,
)

from docs.generate.markdown import code, page, paragraph, sentence, table
from queuegate_server.rpc.authorization import ROLES

_PACKAGE: Final = "queuegate.v1"
_INTRODUCTION: Final = """\
The contract is [`proto/queuegate/v1`](../../proto/queuegate/v1). Clients for
[Python](python.md) and [Go](../how-to/go-shim.md) include the generated stubs; programs in other
languages generate theirs from the contract, and should follow the [advice for
clients](errors.md#advice-for-clients). The server also supports gRPC reflection for callers with
the `read` role.

- **Denied is an answer** (`allowed = false`) with a reason. After an [error](errors.md), do not
  grant access: the question was not answered.
- **Roles**: each service's table shows the role that a call needs; see
  [`callers`](settings.md#callers).
- `grpc.health.v1.Health` is available to everyone. It accepts the names of the services below, and
  the empty name for the server as a whole.
- Within `v1`, fields and values are only added: ignore those that you do not know.
"""


def contract() -> list[FileDescriptorProto]:
    """Return the files of the contract, with their comments."""
    content = files(_PACKAGE).joinpath("contract.binpb").read_bytes()
    return list(FileDescriptorSet.FromString(content).file)


def generate() -> str:
    """Return the page."""
    services: list[str] = []
    messages: list[str] = []
    enums: list[str] = []
    for file in sorted(contract(), key=lambda file: not file.service):
        comments = _Comments(file)
        for number, service in enumerate(file.service):
            services += _service(service, comments, (6, number))
        for number, message in enumerate(file.message_type):
            messages += _message(message, comments, (4, number))
        for number, enum in enumerate(file.enum_type):
            enums += _enum(enum, comments, (5, number))
    return page(
        "The API", _INTRODUCTION, *services, "## Messages", *messages, "## Enumerations", *enums
    )


class _Comments:
    """The comments in a file, by the path of the element that each describes."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._found: Mapping[tuple[int, ...], str] = {
            tuple(each.path): " ".join(each.leading_comments.split())
            for each in file.source_code_info.location
        }

    def of(self, *path: int) -> str:
        return self._found[path]


def _service(
    service: ServiceDescriptorProto, comments: _Comments, path: tuple[int, int]
) -> Iterator[str]:
    name = f"{_PACKAGE}.{service.name}"
    yield f"## `{name}`"
    yield paragraph(comments.of(*path))
    yield table(
        ("call", "request, answer", "role", "meaning"),
        (
            (
                code(method.name),
                _ends(method),
                code(ROLES[f"{name}.{method.name}"]),
                comments.of(*path, 2, number),
            )
            for number, method in enumerate(service.method)
        ),
    )


def _ends(method: MethodDescriptorProto) -> str:
    many = ("s" if method.client_streaming else "", "s" if method.server_streaming else "")
    return (
        f"[request{many[0]}](#{_anchor(method.input_type)}),"
        f" [answer{many[1]}](#{_anchor(method.output_type)})"
    )


def _message(message: DescriptorProto, comments: _Comments, path: tuple[int, ...]) -> Iterator[str]:
    yield f"### `{message.name}`"
    yield paragraph(comments.of(*path))
    if message.field:
        yield table(
            ("number", "field", "type", "meaning"),
            (
                (
                    str(field.number),
                    code(field.name),
                    _type(field, message.nested_type),
                    sentence(comments.of(*path, 2, number)),
                )
                for number, field in enumerate(message.field)
            ),
        )
    for number, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            yield from _message(nested, comments, (*path, 3, number))


def _enum(enum: EnumDescriptorProto, comments: _Comments, path: tuple[int, int]) -> Iterator[str]:
    yield f"### `{enum.name}`"
    yield paragraph(comments.of(*path))
    yield table(
        ("number", "value", "meaning"),
        (
            (str(value.number), code(value.name), comments.of(*path, 2, number))
            for number, value in enumerate(enum.value)
        ),
    )


def _type(field: FieldDescriptorProto, nested: Sequence[DescriptorProto]) -> str:
    entry = {f".{each.name}": each for each in nested if each.options.map_entry}
    for suffix, each in entry.items():
        if field.type_name.endswith(suffix):
            key, value = (_type(part, ()) for part in each.field)
            return f"map of {key} to {value}"
    name = _linked(field.type_name) or code(
        FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    )
    repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
    return f"repeated {name}" if repeated else name


def _linked(type_name: str) -> str:
    name = type_name.removeprefix(".")
    if not name.startswith(f"{_PACKAGE}."):
        return code(name)
    return f"[`{name.rpartition('.')[2]}`](#{_anchor(name)})"


def _anchor(type_name: str) -> str:
    return type_name.rpartition(".")[2].lower()
