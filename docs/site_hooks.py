r"""Hooks of mkdocs: the site shares text with README.md, and no page asks GitHub.

- `<!-- README: Section -->` stands for the text of that section of README.md, or of its title up to
  the first section, and `<!-- README: Section, language -->` for its first block of code in that
  language.
- Links to files outside docs/ lead to the repository.
- `\|` in the code of a table, which GitHub needs, is shown as `|`.
"""

import os
import re
from pathlib import Path
from typing import Any, Final

_INCLUDE: Final = re.compile(r"^( *)<!-- README: ([^,\n]+?)(?:, (\w+))? -->$", re.MULTILINE)
_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)((?:#[^)\s]*)?)(?=\))")
_TABLE_ROW: Final = re.compile(r"^ *\|.*\\\|.*$", re.MULTILINE)
_CODE: Final = re.compile(r"`[^`\n]+`")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Include what the page takes from README.md, and rewrite links and tables.

    A link to a file that does not exist stays, and is reported.
    """
    docs = Path(config.docs_dir)
    folder = (docs / page.file.src_uri).parent

    def on_site(link: re.Match[str]) -> str:
        target = (folder / link[1]).resolve()
        if target.is_relative_to(docs) or not target.exists():
            return link[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"{config.repo_url}/{kind}/main/{target.relative_to(docs.parent)}{link[2]}"

    readme = docs.parent / "README.md"
    markdown = _INCLUDE.sub(lambda found: _included(readme, folder, *found.groups()), markdown)
    markdown = _TABLE_ROW.sub(lambda row: _CODE.sub(_without_escapes, row[0]), markdown)
    return _LINK.sub(on_site, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Keep the theme's script from asking GitHub for the stars of the repository."""
    return output.replace(' data-md-component="source"', "")


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same for the page of addresses that do not exist."""
    return on_post_page(output_content)


def _included(readme: Path, folder: Path, indent: str, title: str, language: str | None) -> str:
    """Return a part of README.md as a page in this folder would write it. Raises LookupError."""
    section = rf"^##? {re.escape(title)}\n(.*?)(?=^## |\Z)"
    found = re.search(section, readme.read_text(), re.DOTALL | re.MULTILINE)
    if found is None:
        raise LookupError(f"README.md has no section {title!r}")
    text = found[1].strip()
    if language is not None:
        block = re.search(rf"^```{language}\n.*?^```$", text, re.DOTALL | re.MULTILINE)
        if block is None:
            raise LookupError(f"the section {title!r} of README.md has no block of {language}")
        text = block[0]

    def from_folder(link: re.Match[str]) -> str:
        return os.path.relpath(readme.parent / link[1], folder) + link[2]

    return re.sub(r"^(?=.)", indent, _LINK.sub(from_folder, text), flags=re.MULTILINE)


def _without_escapes(code: re.Match[str]) -> str:
    return code[0].replace("\\|", "|")
