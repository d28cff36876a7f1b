"""Entries and intermediate responses of a search that follows changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.identity.resolvers.ldap.followed_messages import decode_message
from queuegate_server.identity.resolvers.ldap.ldap_faults import UnusableData
from queuegate_server.identity.resolvers.ldap.ldap_messages import MAX_ATTRIBUTES, check_message
from tests.support.fakes.hostile_directory import ENTRY, element, message
from tests.support.long_work import finish

INTERMEDIATE = 0x79
VALUES = st.lists(st.one_of(st.binary(max_size=5), st.sampled_from([b"x" * 127, b"y" * 300])))
NAMES = st.from_regex("[a-z]{1,3}(;[a-z]{1,2})?", fullmatch=True)


@given(st.text(max_size=200), st.dictionaries(NAMES, VALUES), st.binary(max_size=200))
def test_an_entry(dn: str, attributes: dict[str, list[bytes]], value: bytes) -> None:
    dn = dn.replace("\0", "")
    shown = (
        element(0x30, element(4, name.encode()), element(0x31, *(element(4, v) for v in values)))
        for name, values in attributes.items()
    )
    controls = element(
        0xA0,
        element(0x30, element(4, b"1.2"), element(4, b"other")),
        element(0x30, element(4, b"1.3"), element(1, b"\xff"), element(4, value)),
    )
    text = message(7, ENTRY, element(4, dn.encode()), element(0x30, *shown), controls=controls)
    finish(check_message(text, 10_000))
    decoded = finish(decode_message(text, ["1.3"]))
    assert (decoded.name, decoded.content) == (dn, attributes)
    assert [(c.controlType, c.encodedControlValue) for c in decoded.controls] == [("1.3", value)]


@pytest.mark.parametrize("name", [b"", b"1.3.6.1"])
@pytest.mark.parametrize("value", [b"", b"x" * 200])
def test_an_intermediate_response(name: bytes, value: bytes) -> None:
    parts = element(0x80, name) if name else b"", element(0x81, value) if value else b""
    decoded = finish(decode_message(message(7, INTERMEDIATE, *parts), []))
    assert decoded == (name.decode(), value, [])


def test_many_values_are_decoded_in_steps() -> None:
    values = element(0x31, *(element(4, b"%d" % number) for number in range(10_000)))
    text = message(
        7, ENTRY, element(4), element(0x30, element(0x30, element(4, b"member"), values))
    )
    assert sum(1 for _ in decode_message(text, [])) == 10
    assert sum(1 for _ in check_message(text, 20_000)) >= 5


def test_the_attributes_of_an_entry_are_bounded() -> None:
    """They take elements, of which there may be more, but no step ends among empty ones."""

    def entry(count: int) -> bytes:
        empty = (element(0x30, element(4, b"a%d" % n), element(0x31)) for n in range(count))
        return message(7, ENTRY, element(4), element(0x30, *empty))

    assert finish(check_message(entry(MAX_ATTRIBUTES), 20_000)) == MAX_ATTRIBUTES + 1
    with pytest.raises(UnusableData, match="more than 1000 attributes"):
        finish(check_message(entry(MAX_ATTRIBUTES + 1), 20_000))


def test_a_control_without_a_value() -> None:
    controls = element(0xA0, element(0x30, element(4, b"1.3")))
    text = message(7, ENTRY, element(4), element(0x30), controls=controls)
    [control] = finish(decode_message(text, ["1.3"])).controls
    assert control.encodedControlValue == b""
