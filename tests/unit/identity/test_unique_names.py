"""Names of groups that stand for one group only."""

from collections.abc import Collection, Mapping

import pytest

from queuegate_server.identity.unique_names import UNIQUE_SECONDS, UniqueNames
from tests.support.fakes.clock import ManualClock


class Groups:
    """Groups by name. `searched` lists the names of each search."""

    def __init__(self, names: Collection[str]) -> None:
        self.identities: dict[str, Collection[str]] = {name: [name.upper()] for name in names}
        self.searched: list[Collection[str]] = []
        self.fails_after = 1000

    @property
    def all(self) -> list[tuple[str, str]]:
        return [(name, name.upper()) for name in self.identities]

    async def find(self, names: Collection[str]) -> Mapping[str, Collection[str]]:
        if len(self.searched) >= self.fails_after:
            raise TimeoutError
        self.searched.append(names)
        return {name: self.identities.get(name, ()) for name in names}


@pytest.fixture
def unique(clock: ManualClock) -> UniqueNames:
    return UniqueNames(ValueError, clock)


@pytest.mark.parametrize("found", [[], ["A", "B"], ["B"]])
async def test_names_that_are_not_unique(unique: UniqueNames, found: list[str]) -> None:
    groups = Groups(["a"])
    asked = groups.all
    groups.identities["a"] = found
    with pytest.raises(ValueError, match=r"^a$"):
        await unique.check(asked, groups.find)


async def test_two_groups_of_one_user(unique: UniqueNames) -> None:
    groups = Groups([])
    with pytest.raises(ValueError, match=r"^a$"):
        await unique.check([("a", "1"), ("a", "2")], groups.find)
    assert groups.searched == []


async def test_names_are_known_for_a_minute(unique: UniqueNames, clock: ManualClock) -> None:
    groups = Groups(["a", "b"])
    for _ in range(2):
        await unique.check(groups.all, groups.find)
        clock.advance(UNIQUE_SECONDS / 2)
    assert groups.searched == [["a", "b"]]
    await unique.check([*groups.all, ("b", "B")], groups.find)
    assert groups.searched == [["a", "b"], ["a", "b"]]
    # The check of a name holds for one group.
    with pytest.raises(ValueError, match=r"^b$"):
        await unique.check([("a", "A"), ("b", "other")], groups.find)
    assert groups.searched[2:] == [["b"]]


async def test_a_check_that_is_cut_off_is_continued(unique: UniqueNames) -> None:
    groups = Groups([f"g{number}" for number in range(250)])
    groups.fails_after = 2
    with pytest.raises(TimeoutError):
        await unique.check(groups.all, groups.find)
    groups.fails_after = 1000
    await unique.check(groups.all, groups.find)
    assert [len(names) for names in groups.searched] == [100, 100, 50]
