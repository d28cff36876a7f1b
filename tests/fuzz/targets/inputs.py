"""Inputs of several texts: fields with 0xff between them, a byte that no UTF-8 contains."""

_SEPARATOR = b"\xff"


def joined(*fields: str) -> bytes:
    """Return fields as one input."""
    return _SEPARATOR.join(field.encode(errors="replace") for field in fields)


def texts(data: bytes) -> list[str]:
    """Return the fields of an input, one at least; bytes that are no UTF-8 are replaced."""
    return [field.decode(errors="replace") for field in data.split(_SEPARATOR)]
