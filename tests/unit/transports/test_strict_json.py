"""JSON that two parsers may read differently is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.transports.http.strict_json import (
    MAX_ENTRIES,
    MAX_SAFE_INTEGER,
    Malformed,
    read_object,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is empty: send a JSON object"),
        (b" \r\n", "the body is empty: send a JSON object"),
        (b"[]", "the body must be a JSON object"),
        (b"null", "the body must be a JSON object"),
        (b'{"a":1,"a":1}', "an object has the same member twice: keep one of the two"),
        (b'{"a":1,"\\u0061":2}', "an object has the same member twice: keep one of the two"),
        (b'{"b":[{"a":1,"a":1}]}', "an object has the same member twice: keep one of the two"),
        (b'{"a":NaN}', "NaN is not a JSON value"),
        (b'{"a":-Infinity}', "-Infinity is not a JSON value"),
        (b'{"a":1e400}', "a number is larger than any double: write it as a string"),
        (
            b'{"a":9007199254740992}',
            "a number has more digits than a double holds: write it as a string",
        ),
        (
            b'{"a":%s}' % (b"9" * 5_000),
            "a number has more digits than a double holds: write it as a string",
        ),
        (b'{"a":"\\ud800"}', "a string has half of a surrogate pair: write both escapes"),
        (b'{"\\udc00":1}', "a string has half of a surrogate pair: write both escapes"),
        (b'{"a":"\xff"}', "the body is not UTF-8"),
        (b'{"a":"\xed\xa0\x80"}', "the body is not UTF-8"),
        (b"\xef\xbb\xbf{}", "the body is not JSON: line 1, column 1: "),
        ('{"a":1}'.encode("utf-16"), "the body is not UTF-8"),
        (b'{"a":"\n"}', "the body is not JSON: line 1, column 7: "),
        (b"{'a':1}", "the body is not JSON: line 1, column 2: "),
        (b'{"a":01}', "the body is not JSON: line 1, column 7: "),
        (b'{"a":1,}', "the body is not JSON: line 1, column "),
        (b'{"a":1}x', "the body is not JSON: line 1, column 8: "),
        (b'{"a":1/**/}', "the body is not JSON: line 1, column 7: "),
        (b'{"a":%s}' % (b"[" * 100_000), "the body has too many levels of arrays and objects"),
        (b'{"a":[%s1]}' % (b"1," * MAX_ENTRIES), f"the body has more than {MAX_ENTRIES} entries"),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_refused(body: bytes, message: str) -> None:
    with pytest.raises(Malformed) as caught:
        read_object(body)
    assert str(caught.value).startswith(message)


def test_both_halves_of_a_pair() -> None:
    assert read_object(b'{"a":"\\ud83d\\ude00", "b": "\\\\ud800"}') == {"a": "😀", "b": "\\ud800"}


@given(st.dictionaries(TEXT, VALUES, max_size=3), st.booleans())
def test_what_others_write_is_read(value: dict[str, object], ascii_only: bool) -> None:
    assert read_object(json.dumps(value, ensure_ascii=ascii_only).encode()) == value
