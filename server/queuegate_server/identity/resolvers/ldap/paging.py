"""The control for answers in pages (RFC 2696)."""

from typing import Any, Final

from ldap.controls import RequestControl, ResponseControl
from pyasn1.codec.ber import decoder, encoder
from pyasn1.error import PyAsn1Error
from pyasn1.type import namedtype, univ

from queuegate_server.identity.resolvers.ldap.errors import ServerFault

OID: Final = "1.2.840.113556.1.4.319"


class _Value(univ.Sequence):  # type: ignore[misc]
    componentType = namedtype.NamedTypes(  # noqa: N815
        namedtype.NamedType("size", univ.Integer()),
        namedtype.NamedType("cookie", univ.OctetString()),
    )


def page_request(size: int, cookie: bytes) -> Any:
    """Return the control that asks for the next page; critical."""
    value = _Value()
    value["size"] = size
    value["cookie"] = cookie
    return RequestControl(OID, criticality=True, encodedControlValue=encoder.encode(value))


class PagedResults(ResponseControl):  # type: ignore[misc]
    """What a server says about a page. `cookie` is empty after the last."""

    controlType = OID  # noqa: N815
    KNOWN: Final[dict[str, Any]] = {}
    cookie: bytes | None = None

    def decodeControlValue(self, encoded: bytes) -> None:  # noqa: N802
        """Keep the cookie; None if there is no telling."""
        try:
            value, _ = decoder.decode(encoded, asn1Spec=_Value())
            self.cookie = bytes(value["cookie"])
        except PyAsn1Error:
            self.cookie = None


PagedResults.KNOWN[OID] = PagedResults


def next_cookie(controls: Any) -> bytes:
    """Return what to ask for the next page with; empty after the last. Raises ServerFault."""
    for control in controls:
        if isinstance(control, PagedResults) and control.cookie is not None:
            return control.cookie
    raise ServerFault("the server sent a page and did not say whether it is the last")
