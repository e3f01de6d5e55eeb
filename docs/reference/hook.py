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
sys.path.insert(0, str(ROOT))  # The reference is of the code beside it, whatever is installed.

LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)]*)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is written from the code."""
    from docs.reference.pages import PAGES

    for name, write in PAGES.items():
        files.append(File.generated(config, f"reference/{name}", content=write()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Show the names of files of the repository without the links that GitHub follows: the site has no such files."""

    def shown(found: re.Match[str]) -> str:
        target = normpath(f"{dirname(page.file.src_uri)}/{found[2]}".lstrip("/"))
        return found[1] if target.startswith("..") else found[0]

    return LINK.sub(shown, markdown)
