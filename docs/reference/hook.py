"""Where MkDocs takes the pages that do not lie in docs/, and what the site has otherwise than GitHub.

Source: MkDocs' events ``on_files`` and ``on_page_markdown``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]

TITLES: dict[str, str] = {}
"""Of each page that is written from the code, by its name: what the page that lists them calls it."""
OF_THE_ROOT = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
"""Pages that lie where GitHub looks for them, and what they are called on the site."""
LONG_TABLES = ("rules.md", "variants.md")
"""Pages that have almost every word: a search finds them after all others."""
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)]*)\)")
LINK_OF_THE_ROOT = re.compile(r"\]\((?!#|\w+:)([^)]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is written from the code, and what lies in the folder above."""
    # The reference is of the code beside it, whatever is installed. MkDocs undoes this if it is done on import.
    sys.path.insert(0, str(ROOT))
    from docs.reference.pages import PAGES

    for name, write in PAGES.items():
        text = write()
        TITLES[name] = text.partition("\n")[0].removeprefix("# ")
        files.append(File.generated(config, f"reference/{name}", content=text))
    for name, own in OF_THE_ROOT.items():
        files.append(File.generated(config, own, content=seen_from_docs((ROOT / name).read_text(encoding="utf-8"))))
    return files


def seen_from_docs(text: str) -> str:
    """A page of the folder above docs/, with links as a page in docs/ has them."""
    return LINK_OF_THE_ROOT.sub(lambda found: f"]({relpath(found[1], 'docs')})", text)


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Show the names of files of the repository without the links that GitHub follows: the site has no such files.

    The list of the reference gets the links that GitHub could not follow.
    """
    if page.file.src_uri in LONG_TABLES:
        page.meta["search"] = {"boost": 0.0001}

    def shown(found: re.Match[str]) -> str:
        folder = dirname(page.file.src_uri)
        target = normpath(f"{folder}/{found[2]}".lstrip("/"))
        if not target.startswith(".."):
            return found[0]
        name, mark, heading = target.removeprefix("../").partition("#")
        own = OF_THE_ROOT.get(name)
        return found[1] if own is None else f"[{found[1]}]({relpath(own, folder or '.')}{mark}{heading})"

    markdown = LINK.sub(shown, markdown)
    for name, title in TITLES.items() if page.file.src_uri == "reference/index.md" else ():
        markdown = markdown.replace(f"| {title} |", f"| [{title}]({name}) |")
    return markdown
