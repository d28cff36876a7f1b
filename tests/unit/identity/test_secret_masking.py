"""Secrets are masked in every encoding in which a server may repeat them."""

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.identity.secret_masking import MASK, mask

SECRETS = ("Pa/ss+w rd&=\"\\~:%é'<", "s3cret", "a+b/c==", "x" * 31 + "?>")


def lower(text: str) -> str:
    """Return a text with lower-case escapes, as some programs write them."""
    parts = text.split("%")
    return "%".join([parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])])


def each_byte(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def basic(secret: str, user: str = "client") -> str:
    return base64.b64encode(f"{user}:{secret}".encode()).decode()


ENCODINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "URL": lambda secret: quote(secret, safe=""),
    "URL, slashes kept": quote,
    "URL in lower case": lambda secret: lower(quote(secret, safe="")),
    "URL, each byte": each_byte,
    "URL, each byte in lower case": lambda secret: each_byte(secret).lower(),
    "form": quote_plus,
    "form in lower case": lambda secret: lower(quote_plus(secret)),
    "JSON": lambda secret: json.dumps(secret)[1:-1],
    "JSON with slashes escaped": lambda secret: json.dumps(secret)[1:-1].replace("/", "\\/"),
    "JSON in UTF-8": lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
    "HTML": html.escape,
    "Base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "Base64 for URLs": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "Base64 in a URL": lambda secret: quote(base64.b64encode(secret.encode()), safe=""),
}
BASIC: dict[str, Callable[[str], str]] = {
    "Basic": basic,
    "Basic of another length": lambda secret: basic(secret, "clients"),
    "Basic of a third length": lambda secret: basic(secret, "a-client"),
    "Basic of a form": lambda secret: basic(quote_plus(secret)),
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
def test_encodings(encode: Callable[[str], str], secret: str) -> None:
    assert mask(f"wrong value <{encode(secret)}>!", [secret]) == f"wrong value <{MASK}>!"


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("encode", BASIC.values(), ids=BASIC)
def test_basic_authentication(encode: Callable[[str], str], secret: str) -> None:
    masked = mask(f"Basic {encode(secret)}!", [secret])
    # The name of the client stays, with at most a few bits of the secret.
    assert re.fullmatch(f"Basic [A-Za-z0-9+/]{{9,12}}{MASK}!", masked), masked


@given(st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=1, max_size=40))
def test_any_secret(secret: str) -> None:
    for encode in ENCODINGS.values():
        assert MASK in mask(f"({encode(secret)})", [secret]) or len(secret.encode()) < 3


def test_other_text_stays() -> None:
    assert mask("the password is wrong: %2F c2VjcmV0", ["pass word", "", "/x"]) == (
        "the password is wrong: %2F c2VjcmV0"
    )
