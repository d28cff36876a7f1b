"""Hooks of mkdocs: links to files outside docs/ lead to the repository, and no page asks GitHub."""

import re
from pathlib import Path
from typing import Any, Final

_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)((?:#[^)\s]*)?)(?=\))")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Rewrite the links of a page. A link to a file that does not exist stays, and is reported."""
    docs = Path(config.docs_dir)
    folder = (docs / page.file.src_uri).parent

    def on_site(link: re.Match[str]) -> str:
        target = (folder / link[1]).resolve()
        if target.is_relative_to(docs) or not target.exists():
            return link[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"{config.repo_url}/{kind}/main/{target.relative_to(docs.parent)}{link[2]}"

    return _LINK.sub(on_site, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Keep the theme's script from asking GitHub for the stars of the repository."""
    return output.replace(' data-md-component="source"', "")


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same for the page of addresses that do not exist."""
    return on_post_page(output_content)
