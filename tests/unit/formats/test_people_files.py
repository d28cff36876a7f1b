"""Files that list people."""

import pytest

from queuegate_server.formats.diagnostics import Diagnostics
from queuegate_server.formats.people import People, read_people


def read(text: str) -> tuple[People, list[str]]:
    diagnostics = Diagnostics("people")
    people = read_people(text.encode(), diagnostics)
    return people, [str(each) for each in diagnostics.sorted()]


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("sue,dev,ops\nbob,\n", {"sue": ("dev", "ops"), "bob": ()}),
        ("# people\nsue, dev\n\nbob\n", {"sue": ("dev",), "bob": ()}),
        ('sue,"domain users"\n', {"sue": ("domain users",)}),
        ("sue\nbob\n", {"sue": None, "bob": None}),
        (
            '{"user":"sue","queue":"root"}\n{"user":"sue"}\n{"method":"x"}\n{"user":"bob"}\n',
            {"sue": None, "bob": None},
        ),
        ("", {}),
    ],
)
def test_people(text: str, people: People) -> None:
    assert read(text) == (people, [])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (",dev\n", "people:1:1: error: a name is empty"),
        ("sue,a\nbob,,dev\n", "people:2:1: error: a name is empty"),
        ('sue,"a\x07b"\n', "people"),
        ('{"user":"sue"}\nno json\n', "people:2:1: error: this line is not an audit log record"),
        ('sue,"dev\n', "people:1:1: error: invalid CSV"),
    ],
)
def test_faults_have_their_place(text: str, fault: str) -> None:
    _, faults = read(text)
    assert faults
    assert faults[0].startswith(fault)
