"""A hook of mkdocs for links that work where the Markdown is read as files, and not on a site.

A link to a file outside docs/ is shown as text, for the site has no page of it; one to a folder
leads to its README.
"""

import posixpath
import re
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:)([^)#]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page, as it is given to the Markdown renderer."""
    folder = posixpath.dirname(page.file.src_uri)

    def shown(link: re.Match) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        if target.startswith("../"):
            return link[1]
        return f"[{link[1]}]({link[2]}README.md)" if link[2].endswith("/") else link[0]

    return LINK.sub(shown, markdown)
