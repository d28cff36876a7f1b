"""Whether a text is a distinguished name; checked without the driver, for the settings."""

import re
from typing import Final

_LONGEST: Final = 4096
_TYPE: Final = r"(?:[A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)*)"
_PAIR: Final = r'\\(?:[ "#+,;<=>\\]|[0-9A-Fa-f]{2})'
_PLAIN: Final = r'[^\0"+,;<>\\]'
_VALUE: Final = rf"(?:#(?:[0-9A-Fa-f]{{2}})+|(?![ #])(?:{_PLAIN}|{_PAIR})*|)"
_PART: Final = rf" *{_TYPE} *= *{_VALUE} *"
_DN: Final = re.compile(rf"{_PART}(?:[+,]{_PART})*")
_LOGIN: Final = re.compile(r"[^\0\s@=,]+@[^\0\s@=,]+|[^\0\s\\=,]+\\[^\0\\=,]+")


def is_dn(text: str) -> bool:
    """Say whether a text is a name by RFC 4514; the empty name of the root is one, too."""
    return len(text) <= _LONGEST and (not text or _DN.fullmatch(text) is not None)


def is_login(text: str) -> bool:
    """Say whether a text is user@domain or DOMAIN and user, as Active Directory binds with."""
    return _LOGIN.fullmatch(text) is not None
