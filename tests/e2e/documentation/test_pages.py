"""Every block of README.md and docs/ runs in a test, or is marked and counted."""

import re
from pathlib import Path

import pytest

from tests.e2e.documentation.pages import PAGES, Page, blocks_of, page_names, readable_secrets
from tests.e2e.documentation.reader import CHECKOUT


@pytest.mark.parametrize("name", page_names())
def test_blocks_are_run_or_counted(name: str) -> None:
    page, found = PAGES.get(name, Page()), blocks_of(name)
    marked = [block.line for block in found if block.not_run]
    assert len(marked) == page.not_run, "blocks that are marked as not run: see pages.py"
    if page.module:
        module = (CHECKOUT / "tests" / page.module).read_text()
        assert Path(name).stem in module
        run = [block.language for block in found if not block.not_run]
        assert run == page.blocks.split(), f"{page.module} must run all blocks: see pages.py"


@pytest.mark.parametrize("name", page_names())
def test_every_fence_is_a_block(name: str) -> None:
    """None hides in a form that the reader does not see."""
    text = (CHECKOUT / name).read_text()
    assert len(re.findall(r"^[ >]*(?:```|~~~)", text, re.MULTILINE)) == 2 * len(blocks_of(name))


@pytest.mark.parametrize("name", page_names())
def test_a_page_begins_with_its_only_title(name: str) -> None:
    text = re.sub(r"^```.*?^```", "", (CHECKOUT / name).read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^# .+", text, re.MULTILINE)
    assert len(titles) <= 1
    assert name == "README.md" or text.startswith(("# ", "---\n")), text[:60]


def test_secrets_that_others_may_read(tmp_path: Path) -> None:
    """`follow` looks for these files after each page."""
    for name, text, mode in (
        ("fleet-secret", "5" * 64, 0o644),
        ("server.pem", "-----BEGIN PRIVATE KEY-----", 0o640),
        ("dashboard.token", "token", 0o600),
        ("tokens", "dashboard:hash", 0o644),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    assert sorted(readable_secrets(tmp_path)) == ["fleet-secret", "server.pem"]


def test_named_pages_exist() -> None:
    assert PAGES.keys() <= set(page_names())


@pytest.mark.parametrize("name", page_names())
def test_markdown_reads_the_same_on_the_site_and_on_github(name: str) -> None:
    """The site's parser wants a blank line before a list, and four spaces within its items."""
    text = re.sub(r"(?sm)^( *)```.*?^\1```$", r"\1```", (CHECKOUT / name).read_text())
    assert re.findall(r"^(?![-*>|#<\s]|\d+\.).+\n(?:[-*]|\d+\.) .*$", text, re.MULTILINE) == []
    assert re.findall(r"^(?!(?: {4})*```) +```", text, re.MULTILINE) == []


@pytest.mark.parametrize("name", [each for each in page_names() if each != "README.md"])
def test_a_shim_is_explained_where_a_page_first_mentions_it(name: str) -> None:
    """Outside YuniKorn, few readers know the word."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", (CHECKOUT / name).read_text())
    text = re.sub(r"^#.*$|`[^`]*`|\]\([^)]*\)|<!--.*-->", "", text, flags=re.MULTILINE)
    if first := re.search(r"\bshims?\b", text, re.IGNORECASE):
        explained = text[max(first.start() - 60, 0) : first.end() + 130]
        assert re.search(
            r"\bprograms? (?:that|between)\b|\bpart (?:of|that)\b|see below", explained
        )


@pytest.mark.parametrize("name", page_names())
def test_settings_for_a_trial_are_in_the_working_folder(name: str) -> None:
    """Those that serve the example policy: a reader who tries a page may not write to /etc."""
    found = [block for block in blocks_of(name) if "examples/queues.yaml" in block.text]
    assert not [block.file for block in found if block.file.startswith("/")]
