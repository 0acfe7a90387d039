"""What a student wrote, shown to a person in formgrader or in the feedback: no script of theirs runs there.

Formgrader's page acts with the grader's rights, so that a `<script>` in an answer could give itself marks.
`markdown` and `clean` take the place of nbconvert's filters markdown2html and clean_html (see nbconfig.py):
nbgrader's own templates clean no markdown, and nbconvert's cleaning knows neither headings nor tables.
"""

from __future__ import annotations

import functools
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


def clean(html: Any) -> str:
    """`html` without what acts by itself; what is left out is shown as the text that was written."""
    return str(_cleaner().clean(html.decode("utf-8", "replace") if isinstance(html, bytes) else str(html)))


@pass_context
def markdown(context: Any, source: str) -> str:
    """A markdown cell's page, with the pictures that are attached to the cell."""
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    attachments = context.get("cell", {}).get("attachments", {})
    page = MarkdownWithMath(renderer=IPythonRenderer(escape=False, attachments=attachments)).render(source)
    return clean(TASK.sub(lambda task: "☑ " if "checked" in task[0] else "☐ ", page))
