"""A key in another section: the message says where it belongs."""

import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from queuegate_server.settings.places import NAME, places
from tests.support.settings_faults import faults

Keys = tuple[str, ...]
_NAMES: Final = {"partitions": "default", "resolvers": "corp", "tokens": "ann"}
_LISTS: Final = {"listen", "places", "policies", "more_groups"}


def _named(path: Keys) -> Keys:
    """Return the path with a valid name for each NAME."""
    above = ("", *path)
    return tuple(
        _NAMES.get(key, "cn:x") if part == NAME else part
        for key, part in zip(above, path, strict=False)
    )


def _one_level_away() -> dict[tuple[Keys, str], dict[str, list[Keys]]]:
    """Return the places of each key, by the sections one level above and below in which it is
    unknown.
    """
    found: dict[tuple[Keys, str], dict[str, list[Keys]]] = {}
    for place in places():
        sections = {
            (each.path, each.resolver_type)
            for each in places()
            if each.path[:-1] == place.path != each.path
            and place.resolver_type in {"", each.resolver_type}
        }
        if place.path:
            sections.add((place.path[:-1], place.resolver_type if len(place.path) > 2 else ""))
        for section in sections:
            known = {key for each in places() if each.path == section[0] for key in each.keys}
            for key in place.keys - known:
                found.setdefault(section, {}).setdefault(key, []).append(place.path)
    del found[("callers", "certificates"), ""]  # a key is refused as the name of a certificate
    return found


def _document(section: Keys, kind: str, keys: Collection[str]) -> Any:
    """Return settings in which the keys stand in a section, of a resolver of this type."""
    tree: Any = dict.fromkeys(keys, 5)
    for part in reversed(_named(section)):
        tree = {part: [tree] if part in _LISTS else tree}
    if kind:
        tree["resolvers"]["corp"]["type"] = kind
    return tree


CASES: Final = _one_level_away()


def test_the_cases_are_in_all_parts_of_the_settings() -> None:
    assert len(CASES) > 35
    assert {path[:1] for path, _ in CASES} == {
        path[:1] for path in {each.path for each in places()}
    }


@pytest.mark.parametrize(("section", "kind"), CASES)
def test_a_key_one_level_too_high_or_too_low(section: Keys, kind: str, tmp_path: Path) -> None:
    keys = CASES[section, kind]
    document = _document(section, kind, keys)
    lines = faults(tmp_path / "queuegate.yaml", yaml.safe_dump(document))
    written = [f"{part}[0]" if part in _LISTS else part for part in _named(section)]
    for key, paths in keys.items():
        (line,) = (each for each in lines if f": {'.'.join([*written, key])}: " in each)
        for path in paths:
            texts = {re.escape(".".join(each)) for each in (path, _named(path))}
            pattern = rf"under (.* or )?({'|'.join(texts)})( or |;|\))"
            assert re.search(pattern if path else "at the top level", line), (key, path)


def test_a_driver_that_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "queuegate.yaml").write_text("{realm: x, positive_ttl: 1m}")
    code = (
        "import sys; sys.modules |= {'aiohttp': None, 'bonsai': None}\n"
        "from pathlib import Path\n"
        "from queuegate_server.settings.load import SettingsError, load_settings\n"
        "try: load_settings(Path(sys.argv[1]))\n"
        "except SettingsError as error: print(error)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "queuegate.yaml")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "realm: unknown key (known keys are " in shown
    assert "positive_ttl: unknown key (write it under partitions.NAME.cache;" in shown
