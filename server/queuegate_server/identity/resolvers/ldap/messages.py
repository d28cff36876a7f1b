"""The few LDAP messages that are exchanged before libldap takes over a connection (RFC 4511)."""

from typing import Final, NamedTuple

from pyasn1.codec.ber import decoder
from pyasn1.error import PyAsn1Error
from pyasn1_modules import rfc2251

from queuegate_server.identity.resolvers.ldap.errors import ServerFault

START_TLS_REQUEST: Final = bytes.fromhex("301d 0201 01 7718 8016") + b"1.3.6.1.4.1.1466.20037"
"""An extended request with message id 1."""
SASL_EXTERNAL_REQUEST: Final = (
    bytes.fromhex("3018 0201 01 6013 0201 03 0400 a30c 0408") + b"EXTERNAL" + bytes.fromhex("0400")
)
"""A bind request of LDAP version 3 with message id 1, without a name and with empty credentials."""
_MAX_MESSAGE_BYTES: Final = 65_536
_SEQUENCE: Final = 0x30
_SHORT_HEADER_BYTES: Final = 2
_MAX_HEADER_BYTES: Final = 6
_LONG_FORM: Final = 0x80


class LdapReply(NamedTuple):
    """The answer of a server to StartTLS or to a SASL bind."""

    code: int
    """The result code: 0 is success."""
    text: str


def pop_message(buffer: bytearray) -> bytes | None:
    """Remove and return the first message in a buffer; None while it is incomplete.

    Raises ServerFault for bytes that are no LDAP message, or too long for an answer to ours.
    """
    if len(buffer) < _SHORT_HEADER_BYTES:
        return None
    size = buffer[1]
    start = _SHORT_HEADER_BYTES
    if size & _LONG_FORM:
        start += size & ~_LONG_FORM
        if len(buffer) < start:
            return None
        size = int.from_bytes(buffer[_SHORT_HEADER_BYTES:start], "big")
    if buffer[0] != _SEQUENCE or size > _MAX_MESSAGE_BYTES or start > _MAX_HEADER_BYTES:
        raise ServerFault(
            "the server does not speak LDAP",
            "check the port: it may be one for ldaps, or not that of a directory",
        )
    if len(buffer) < start + size:
        return None
    message = bytes(buffer[: start + size])
    del buffer[: start + size]
    return message


def parse_reply(message: bytes) -> LdapReply:
    """Return the reply in a message. Raises ServerFault if it answers none of our requests."""
    try:
        decoded, rest = decoder.decode(message, asn1Spec=rfc2251.LDAPMessage())
        operation = decoded["protocolOp"]
        if rest or operation.getName() not in ("extendedResp", "bindResponse"):
            raise ServerFault("the server sent an unexpected kind of answer")
        answer = operation.getComponent()
        text = bytes(answer["errorMessage"]).decode("utf-8", "replace")
        return LdapReply(int(answer["resultCode"]), text)
    except PyAsn1Error:
        raise ServerFault("the server sent an answer that is not LDAP") from None
