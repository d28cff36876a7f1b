"""Files that list people."""

from queuegate_server.formats.diagnostics import Diagnostics
from queuegate_server.formats.people import People, read_people
from tests.support.rows import rows


def read(text: str) -> tuple[People, list[str]]:
    diagnostics = Diagnostics("people")
    people = read_people(text.encode(), diagnostics)
    return people, [str(each) for each in diagnostics.sorted()]


@rows
def test_people(text: str, people: People) -> None:
    assert read(text) == (people, [])


@rows
def test_faults_have_their_place(text: str, fault: str) -> None:
    _, faults = read(text)
    assert faults
    assert faults[0].startswith(fault)
