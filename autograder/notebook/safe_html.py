"""What a student wrote, shown to a person in formgrader or in the feedback: no script of theirs runs there.

Formgrader's page acts with the grader's rights, so that a `<script>` in an answer could give itself marks.
`markdown` and `clean` take the place of nbconvert's filters markdown2html and clean_html (see nbconfig.py):
nbgrader's own templates clean no markdown, and nbconvert's cleaning knows neither headings nor tables.
"""

from __future__ import annotations

import functools
import html
import re
from typing import Any

from jinja2 import pass_context

_TAGS = """
    a abbr acronym b blockquote br caption code dd del details div dl dt em figcaption figure h1 h2 h3 h4 h5
    h6 hr i img ins kbd li mark ol p pre s samp small span strong sub summary sup table tbody td tfoot th
    thead tr u ul var
"""
TAGS = frozenset(_TAGS.split())
# No `id` but a heading's, which links lead to: formgrader finds its own fields by theirs.
ATTRIBUTES = {
    "a": ["title"], "abbr": ["title"], "img": ["alt", "title", "width", "height"], "ol": ["start"],
    "td": ["colspan", "rowspan", "align"], "th": ["colspan", "rowspan", "align", "scope"],
}  # fmt: skip
CLASSES = {"a", "code", "div", "pre", "span", "table"}   # colours of code, tables of pandas
# Pictures that stand in the page itself: another one would tell its server who looks, and when.
PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[\w+/=\s]*")
TASK = re.compile(r'<input class="task-list-item-checkbox"[^<>]*>')   # `- [ ] …`
LINK = re.compile(r"(?:https?://|mailto:|#).*", re.DOTALL)


def _allowed(tag: str, name: str, value: str) -> bool:
    if name == "class":
        return tag in CLASSES
    if name == "id":
        return re.fullmatch("h[1-6]", tag) is not None
    if name == "src":
        return tag == "img" and PICTURE.fullmatch(value) is not None
    if name == "href":
        return tag == "a" and LINK.fullmatch(value) is not None
    return name in ATTRIBUTES.get(tag, ())


@functools.cache
def _cleaner() -> Any:
    from bleach.sanitizer import Cleaner

    return Cleaner(tags=TAGS, attributes=_allowed, protocols={"http", "https", "mailto", "data"})


# A page's reader opens the styles again that a paragraph leaves open: 8 kB of `<b a=1><b a=2>… <p><p>` are
# megabytes and minutes. Nobody nests as deep as this.
MOST_STYLES, MOST_NESTED = 8, 100
STYLES = frozenset({"a", "b", "code", "del", "em", "i", "ins", "s", "small", "strong", "u"})
ALONE = frozenset({"br", "hr", "img"})


# A tag as people write it: no `<` or `>` in it, so that a look at what is none ends at the next one.
TAG = re.compile(r"""<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:[^<>"']|"[^"<>]*"|'[^'<>]*')*)>""")
ATTRIBUTE = re.compile(r"""([a-zA-Z][\w:.-]*)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"']+))?""")


def _nested(page: str) -> str:
    """The same page with every element closed where it ends, none too deep, and no tag that is not allowed.

    In a time that grows with its length, as the cleaner's does with what comes out.
    """
    made: list[str] = []
    opened: list[str] = []
    place = 0
    for found in TAG.finditer(page):
        made += [_as_text(page[place:found.start()]), _tag(found, opened)]
        place = found.end()
    return "".join([*made, _as_text(page[place:]), *(f"</{tag}>" for tag in reversed(opened))])


def _as_text(written: str) -> str:
    return written.replace("<", "&lt;").replace(">", "&gt;")   # its `&amp;` stays one


def _tag(found: re.Match[str], opened: list[str]) -> str:
    """The tag as it may stand, in the elements that are open; they change with it."""
    closes, tag, attributes = found[1], found[2].lower(), found[3]
    if closes and tag in opened:
        inner = opened[len(opened) - opened[::-1].index(tag):]
        del opened[len(opened) - len(inner) - 1:]
        return "".join(f"</{one}>" for one in [*reversed(inner), tag])
    styles = sum(one in STYLES for one in opened) if tag in STYLES else 0
    if tag not in TAGS or styles >= MOST_STYLES or len(opened) >= MOST_NESTED:
        return _as_text(found[0])
    if closes:   # of nothing
        return ""
    if tag not in ALONE:
        opened.append(tag)
    told = ""
    for name, value in ATTRIBUTE.findall(attributes):
        given = html.unescape(value[1:-1] if value[:1] in ("'", '"') else value)
        if _allowed(tag, name.lower(), given):
            told += f' {name.lower()}="{html.escape(given)}"'
    return f"<{tag}{told}>"


def clean(page: Any) -> str:
    """`page` without what acts by itself; what is left out is shown as the text that was written."""
    written = page.decode("utf-8", "replace") if isinstance(page, bytes) else str(page)
    return str(_cleaner().clean(_nested(written)))


class _Attached(dict[str, dict[str, str]]):
    """A cell's pictures by name. One that was lost (a cell that was pasted into another notebook) is an empty
    one, with its description: nbconvert would make no page at all.
    """

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> dict[str, str]:
        return {"image/png": ""}


@pass_context
def markdown(context: Any, source: str) -> str:
    """A markdown cell's page, with the pictures that are attached to the cell."""
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    attached = context.get("cell", {}).get("attachments") or {}
    attachments = _Attached({name: one for name, one in attached.items() if one})
    page = MarkdownWithMath(renderer=IPythonRenderer(escape=False, attachments=attachments)).render(source)
    return clean(TASK.sub(lambda task: "☑ " if "checked" in task[0] else "☐ ", page))
