"""The descriptors that server reflection shows: those of protobuf's default pool, with the comments
of the contract, with names of methods, and with version 1 of reflection itself.
"""

from collections.abc import Sequence
from importlib import resources
from typing import Any, Final

from google.protobuf import descriptor_pool, text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_reflection.v1alpha import reflection_pb2

_POOL: Final[Any] = descriptor_pool.Default()
_ALPHA: Final = "grpc.reflection.v1alpha"
_STABLE: Final = "grpc.reflection.v1"


class DescribedFile:
    """A file as the servicer of the library looks at it."""

    def __init__(self, file: FileDescriptor, commented: dict[str, FileDescriptorProto]) -> None:
        """Show a file, with its comments if it is among those that have them."""
        self.name: str = file.name
        self._file = file
        self._commented = commented

    @property
    def dependencies(self) -> "Sequence[DescribedFile]":
        """The files that it imports."""
        return [DescribedFile(each, self._commented) for each in self._file.dependencies]

    def CopyToProto(self, proto: FileDescriptorProto) -> None:
        """Write the descriptor into a message."""
        if (commented := self._commented.get(self.name)) is not None:
            proto.CopyFrom(commented)
        else:
            self._file.CopyToProto(proto)


class DescribedPool:
    """What the servicer of the library needs of a pool. Its methods raise KeyError."""

    def __init__(self) -> None:
        """Read the comments of the contract."""
        contract = (resources.files("queuegate.v1") / "contract.binpb").read_bytes()
        files = FileDescriptorSet.FromString(contract).file
        self._commented = {file.name: file for file in files}
        _add_stable_reflection()

    def FindFileByName(self, name: str) -> DescribedFile:
        """Return a file."""
        return self._described(_POOL.FindFileByName(name))

    def FindFileContainingSymbol(self, symbol: str) -> DescribedFile:
        """Return the file of a message, enum, service or method, given by its full name."""
        try:
            return self._described(_POOL.FindFileContainingSymbol(symbol))
        except KeyError:
            service, _, method = symbol.rpartition(".")
            found = _POOL.FindServiceByName(service).methods_by_name[method]
            return self._described(found.containing_service.file)

    def FindMessageTypeByName(self, name: str) -> Descriptor:
        """Return a message."""
        found: Descriptor = _POOL.FindMessageTypeByName(name)
        return found

    def FindExtensionByNumber(self, message: Descriptor, number: int) -> FieldDescriptor:
        """Return an extension of a message."""
        found: FieldDescriptor = _POOL.FindExtensionByNumber(message, number)
        return found

    def FindAllExtensions(self, message: Descriptor) -> Sequence[FieldDescriptor]:
        """Return the extensions of a message."""
        found: Sequence[FieldDescriptor] = _POOL.FindAllExtensions(message)
        return found

    def _described(self, file: FileDescriptor) -> DescribedFile:
        return DescribedFile(file, self._commented)


def _add_stable_reflection() -> None:
    """Add version 1 of reflection, which the library lacks, to the pool: on the wire both versions
    are the same.
    """
    alpha = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(alpha)
    stable = text_format.MessageToString(alpha).replace(_ALPHA, _STABLE)
    named = text_format.Parse(stable, FileDescriptorProto())
    named.name = "grpc/reflection/v1/reflection.proto"
    _POOL.AddSerializedFile(named.SerializeToString())
