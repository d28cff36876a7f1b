"""Messages of a server that publishes its contract through gRPC reflection."""

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from bench import ghz

Json = dict[str, Any]

_TIME_LIMIT = 30


class Contract:
    """The messages of a service."""

    def __init__(self, channel: grpc.Channel, service: str) -> None:
        """Ask a server for the files of a service."""
        self._channel = channel
        self._service = service
        self._pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        self._methods = self._pool.FindServiceByName(service).methods_by_name
        self.files = ghz.descriptors(self._pool.FindServiceByName(service).file)

    def request(self, method: str) -> Callable[[Json], bytes]:
        """Return a function that builds a request of a method from JSON."""
        message_class = message_factory.GetMessageClass(self._methods[method].input_type)
        pool = self._pool

        def serialize(content: Json) -> bytes:
            message = json_format.ParseDict(content, message_class(), descriptor_pool=pool)
            return message.SerializeToString()

        return serialize

    def response(self, method: str) -> Callable[[bytes], Message]:
        """Return a function that parses a response of a method."""
        return message_factory.GetMessageClass(self._methods[method].output_type).FromString

    def call(self, method: str, content: Json) -> Any:
        """Call a method. Raises grpc.RpcError."""
        ask: grpc.UnaryUnaryMultiCallable[Any, Any] = self._channel.unary_unary(
            f"/{self._service}/{method}", self.request(method), self.response(method)
        )
        return ask(content, timeout=_TIME_LIMIT)
