"""threat-tests.md: the tests that show the defence against each threat."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from docs.generate.markdown import page

TESTS: Final = Path("tests/threats.toml")
_INTRODUCTION: Final = """\
Each heading is a threat in the [threat model](../explanation/threat-model.md). The tests in
`tests/e2e/kube` use a real API server, which `make kube-tools` builds. There is no defence against
the threats in the model that are missing here.
"""


def load_tests() -> Mapping[str, Sequence[str]]:
    """Return the tests of each threat: FILE::NAME, or the file of a golden case."""
    found: Mapping[str, Sequence[str]] = tomllib.loads(TESTS.read_text(encoding="utf-8"))
    return found


def generate() -> str:
    """Return the page."""
    return page("Tests of the threats", _INTRODUCTION, *_sections())


def _sections() -> Iterator[str]:
    for threat, tests in load_tests().items():
        links = map(_link, tests)
        yield "\n".join([f"## {threat}", "", *links])


def _link(test: str) -> str:
    file = test.partition("::")[0]
    return f"- [`{test.removeprefix(f'{Path(file).parent}/')}`](../../{file})"
