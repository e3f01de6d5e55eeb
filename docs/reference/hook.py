"""Where MkDocs takes the pages of the reference, and what the site has otherwise than GitHub.

Source: MkDocs' events ``on_files`` and ``on_page_markdown``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from posixpath import dirname, normpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]

TITLES: dict[str, str] = {}
"""Of each page that is written from the code, by its name: what the page that lists them calls it."""
LONG_TABLES = ("rules.md", "variants.md")
"""Pages that have almost every word: a search finds them after all others."""
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)]*)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is written from the code."""
    # The reference is of the code beside it, whatever is installed. MkDocs undoes this if it is done on import.
    sys.path.insert(0, str(ROOT))
    from docs.reference.pages import PAGES

    for name, write in PAGES.items():
        text = write()
        TITLES[name] = text.partition("\n")[0].removeprefix("# ")
        files.append(File.generated(config, f"reference/{name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Show the names of files of the repository without the links that GitHub follows: the site has no such files.

    The list of the reference gets the links that GitHub could not follow.
    """
    if page.file.src_uri in LONG_TABLES:
        page.meta["search"] = {"boost": 0.0001}

    def shown(found: re.Match[str]) -> str:
        target = normpath(f"{dirname(page.file.src_uri)}/{found[2]}".lstrip("/"))
        return found[1] if target.startswith("..") else found[0]

    markdown = LINK.sub(shown, markdown)
    for name, title in TITLES.items() if page.file.src_uri == "reference/index.md" else ():
        markdown = markdown.replace(f"| {title} |", f"| [{title}]({name}) |")
    return markdown
