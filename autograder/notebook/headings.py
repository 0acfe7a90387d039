"""The headings of a copy's cells, made to fit a page that has headings of its own."""

from __future__ import annotations

import re

_HEADING = re.compile(r"<(/?)h([1-6])((?:\s[^<>]*)?)>")
_ID = re.compile(r'\sid="([^"]*)"')
_ANCHOR = re.compile(r'<a class="anchor-link"[^<>]*>[^<>]*</a>')
_EMPTY = re.compile(r"<th((?:\s[^<>]*)?)>\s*</th>")


class Headings:
    """Fits the headings of a copy's cells under the page's own: in order, no level left out, each id once."""

    def __init__(self) -> None:
        self.level = 2          # the section that the cells stand in
        self.open: list[int] = []
        self.ids: set[str] = set()

    def restart(self) -> str:
        """What follows stands under a section's heading again."""
        self.level = 2
        return ""

    def __call__(self, page: str) -> str:
        self.open = []
        page = _EMPTY.sub(r"<td\1></td>", _ANCHOR.sub("", page))
        return _HEADING.sub(self._fitted, page)

    def _fitted(self, found: re.Match[str]) -> str:
        if found[1]:
            return f"</h{self.open.pop()}>" if self.open else ""
        self.level = min(int(found[2]) + 2, self.level + 1, 6)
        self.open.append(self.level)
        ident = _ID.search(found[3])
        kept = ""
        if ident is not None and ident[1] not in self.ids and not ident[1].startswith(("fb-", "tl")):
            self.ids.add(ident[1])
            kept = ident[0]
        return f"<h{self.level}{kept}>"
