"""The few LDAP messages that are sent before libldap takes over a connection (RFC 4511)."""

from typing import Final, NamedTuple

from pyasn1.codec.ber import decoder, encoder
from pyasn1.error import PyAsn1Error
from pyasn1_modules import rfc2251

from queuegate_server.identity.resolvers.ldap.errors import ServerFault

_START_TLS: Final = b"1.3.6.1.4.1.1466.20037"
_LONGEST: Final = 65_536
_SEQUENCE: Final = 0x30
_HEAD: Final = 2
"""Bytes before a message whose length fits into the second one."""
_LONGEST_HEAD: Final = 6
_LONG_FORM: Final = 0x80
_MESSAGE_ID: Final = 1


class Reply(NamedTuple):
    """What a server answered to StartTLS or to a step of a bind."""

    code: int
    """0 is success, 14 asks for the next step of a bind."""
    text: str
    credentials: bytes


def start_tls() -> bytes:
    """Return the request to encrypt the connection."""
    request = rfc2251.ExtendedRequest()
    request["requestName"] = _START_TLS
    return _message("extendedReq", request)


def sasl_bind(mechanism: str, credentials: bytes) -> bytes:
    """Return a step of a SASL bind."""
    request = rfc2251.BindRequest()
    request["version"] = 3
    request["name"] = b""
    request["authentication"]["sasl"]["mechanism"] = mechanism.encode()
    request["authentication"]["sasl"]["credentials"] = credentials
    return _message("bindRequest", request)


def take_message(buffer: bytearray) -> bytes | None:
    """Remove the first whole message from what was received; None while it is not whole.

    Raises ServerFault for what is no LDAP message or too long for an answer to ours.
    """
    if len(buffer) < _HEAD:
        return None
    size = buffer[1]
    start = _HEAD
    if size & _LONG_FORM:
        start += size & ~_LONG_FORM
        if len(buffer) < start:
            return None
        size = int.from_bytes(buffer[_HEAD:start], "big")
    if buffer[0] != _SEQUENCE or size > _LONGEST or start > _LONGEST_HEAD:
        raise ServerFault(
            "the server does not speak LDAP", "check the port: is it ldaps, or no directory at all?"
        )
    if len(buffer) < start + size:
        return None
    message = bytes(buffer[: start + size])
    del buffer[: start + size]
    return message


def reply(message: bytes) -> Reply:
    """Return what a message says. Raises ServerFault if it is no reply to ours."""
    try:
        decoded, rest = decoder.decode(message, asn1Spec=rfc2251.LDAPMessage())
        operation = decoded["protocolOp"]
        if rest or operation.getName() not in ("extendedResp", "bindResponse"):
            raise ServerFault("the server sent an answer to another question")
        answer = operation.getComponent()
        credentials = b""
        if operation.getName() == "bindResponse" and answer["serverSaslCreds"].hasValue():
            credentials = bytes(answer["serverSaslCreds"])
        text = bytes(answer["errorMessage"]).decode("utf-8", "replace")
        return Reply(int(answer["resultCode"]), text, credentials)
    except PyAsn1Error:
        raise ServerFault("the server sent an answer that is not LDAP") from None


def _message(kind: str, request: object) -> bytes:
    message = rfc2251.LDAPMessage()
    message["messageID"] = _MESSAGE_ID
    message["protocolOp"][kind] = request
    return bytes(encoder.encode(message))
