"""A small LDAP server for behaviour that slapd lacks: Active Directory's features, and lies."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from ssl import SSLContext
from types import MappingProxyType
from typing import Any, NamedTuple

from pyasn1.codec.ber import decoder, encoder
from pyasn1.error import SubstrateUnderrunError
from pyasn1_modules import rfc2251

from tests.support.fakes.tcp_server import close_server

Attributes = dict[str, list[bytes]]


class Search(NamedTuple):
    base: str
    scope: int
    filter: str
    attributes: tuple[str, ...]
    size_limit: int
    controls: Mapping[str, bytes]


class Answer(NamedTuple):
    entries: Sequence[tuple[str, Attributes]] = ()
    code: int = 0
    text: str = ""
    referral: bytes = b""
    silent: bool = False
    controls: Mapping[str, bytes] = MappingProxyType({})
    """The values of the result's controls, by type."""


class FakeDirectory:
    """Answers every bind with `bind_code`, and every search with the result of `answer`."""

    def __init__(self, answer: Callable[[Search], Answer]) -> None:
        self.answer = answer
        self.bind_code = 0
        self.bind_text = ""
        self.start_tls_code = 2
        self.searches: list[Search] = []
        self.binds = 0
        self.passwords: list[bytes] = []
        self.port = 0
        self.raw_reply = b""
        """Sent instead of the answer to a search."""
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    async def start(self, tls: SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server
        await close_server(self._server, self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        buffer = bytearray()
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                buffer += data
                while (request := _pop_request(buffer)) is not None:
                    writer.write(self._replies(request))
        writer.close()

    def _replies(self, request: Any) -> bytes:
        number = int(request["messageID"])
        operation = request["protocolOp"]
        kind, body = operation.getName(), operation.getComponent()
        if kind == "bindRequest":
            self.binds += 1
            if body["authentication"].getName() == "simple":
                self.passwords.append(bytes(body["authentication"]["simple"]))
            reply = _result(rfc2251.BindResponse(), self.bind_code, self.bind_text)
            return _message(number, "bindResponse", reply)
        if kind == "extendedReq":
            reply = _result(rfc2251.ExtendedResponse(), self.start_tls_code, "no")
            return _message(number, "extendedResp", reply)
        if kind == "searchRequest":
            return self._search(number, body, request["controls"])
        return b""

    def _search(self, number: int, body: Any, controls: Any) -> bytes:
        search = Search(
            str(body["baseObject"]),
            int(body["scope"]),
            text_of(body["filter"]),
            tuple(str(name) for name in body["attributes"]),
            int(body["sizeLimit"]),
            {str(each["controlType"]): bytes(each["controlValue"]) for each in controls},
        )
        self.searches.append(search)
        if self.raw_reply:
            return self.raw_reply
        answer = self.answer(search)
        if answer.silent:
            return b""
        sent = b"".join(_entry(number, dn, values) for dn, values in answer.entries)
        if answer.referral:
            reference = rfc2251.SearchResultReference()
            reference.append(answer.referral)
            sent += _message(number, "searchResRef", reference)
        done = _result(rfc2251.SearchResultDone(), answer.code, answer.text)
        return sent + _message(number, "searchResDone", done, answer.controls)


def _pop_request(buffer: bytearray) -> Any:
    """Remove and return the first request in a buffer, or None if it is incomplete."""
    try:
        request, rest = decoder.decode(bytes(buffer), asn1Spec=rfc2251.LDAPMessage())
    except SubstrateUnderrunError:
        return None
    buffer[:] = rest
    return request


@contextlib.asynccontextmanager
async def fake_directory(
    answer: Callable[[Search], Answer], tls: SSLContext | None = None
) -> AsyncIterator[FakeDirectory]:
    fake = FakeDirectory(answer)
    await fake.start(tls)
    try:
        yield fake
    finally:
        await fake.close()


def text_of(node: Any) -> str:
    """Return a filter as RFC 4515 text."""
    kind, body = node.getName(), node.getComponent()
    if kind in ("and", "or"):
        return f"({'&' if kind == 'and' else '|'}{''.join(map(text_of, body))})"
    if kind == "not":
        return f"(!{text_of(body)})"
    if kind == "present":
        return f"({body!s}=*)" if not isinstance(body, bytes) else f"({body.decode()}=*)"
    if kind == "equalityMatch":
        return f"({body['attributeDesc']!s}={_value(body['assertionValue'])})"
    if kind == "extensibleMatch":
        return f"({body['type']!s}:{body['matchingRule']!s}:={_value(body['matchValue'])})"
    raise AssertionError(kind)


def _value(value: Any) -> str:
    raw = bytes(value)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return raw.hex()
    return text if text.isprintable() else raw.hex()


def _result(reply: Any, code: int, text: str) -> Any:
    reply["resultCode"] = code
    reply["matchedDN"] = b""
    reply["errorMessage"] = text.encode()
    return reply


def _entry(number: int, dn: str, values: Attributes) -> bytes:
    entry = rfc2251.SearchResultEntry()
    entry["objectName"] = dn.encode()
    for position, (name, texts) in enumerate(values.items()):
        entry["attributes"][position]["type"] = name.encode()
        # An attribute without values is still present.
        entry["attributes"][position]["vals"].clear()
        for place, text in enumerate(texts):
            entry["attributes"][position]["vals"][place] = text
    return _message(number, "searchResEntry", entry)


def _message(
    number: int, kind: str, body: Any, controls: Mapping[str, bytes] = MappingProxyType({})
) -> bytes:
    message = rfc2251.LDAPMessage()
    message["messageID"] = number
    message["protocolOp"][kind] = body
    for position, (name, value) in enumerate(controls.items()):
        message["controls"][position]["controlType"] = name.encode()
        message["controls"][position]["controlValue"] = value
    return bytes(encoder.encode(message))
