"""What students wrote, as a page: readable, and nothing in it acts by itself."""

from __future__ import annotations

from typing import Any

import pytest

from autograder.notebook.safe_html import clean, markdown


def page(source: str, **cell: Any) -> str:
    return markdown({"cell": cell}, source)


def test_what_lessons_and_answers_are_made_of_stays() -> None:
    shown = page("# Titre\n\nDu **gras**, `a < b`, $x_1<y$.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    for part in ("<h1 id=", "<strong>gras</strong>", "<code>a &lt; b</code>", "$x_1&lt;y$", "<th>a</th>"):
        assert part in shown
    assert "☑ fait" in page("- [x] fait") and "☐ à faire" in page("- [ ] à faire")
    assert '<span class="k">' in page("```python\nif x: pass\n```")


def test_a_picture_of_the_cells_own_is_shown() -> None:
    shown = page("![schéma](attachment:a.png)", attachments={"a.png": {"image/png": "aGVsbG8="}})
    assert 'src="data:image/png;base64,aGVsbG8="' in shown


def test_a_picture_that_was_lost_leaves_its_description() -> None:
    for attachments in ({}, {"autre.png": {"image/png": "aGVsbG8="}}, {"a.png": {}}, None):
        assert 'alt="schéma"' in page("![schéma](attachment:a.png)", attachments=attachments)


@pytest.mark.parametrize("source", [
    "<script>pwned()</script>", "<img src=x onerror=pwned()>", "<svg onload=pwned()></svg>",
    "<style>pwned{}</style>", "[x](javascript:pwned())", '<a href="java&#115;cript:pwned()">x</a>',
    '<a href=" javascript:pwned()">x</a>',
    '<iframe srcdoc="<script>pwned()</script>"></iframe>',
    "<form action=/pwned><input name=score></form>",
    '<a href="data:text/html,<script>pwned()</script>">x</a>', "![x](http://pwned.example/x.png)",
    '<img src="data:image/svg+xml;base64,pwned">', '<p id="pwned" class="score" style="pwned">x</p>',
    "<<script>script>pwned()<</script>/script>",
    "<noscript><p title=\"</noscript><img src=x onerror=pwned()>\">",
])  # fmt: skip
def test_nothing_acts_by_itself(source: str) -> None:
    for shown in (page(source), clean(source), clean(source.encode())):
        live = [piece.partition(">")[0] for piece in shown.split("<")[1:]]
        assert not [tag for tag in live if "pwned" in tag], shown
        acting = ("script", "style", "iframe", "svg", "form", "input")
        assert not [tag for tag in live if tag.startswith(acting)], shown


BLOCKS = "<p>x" * 3_000


@pytest.mark.parametrize("bomb", [
    "<p>" + "".join(f"<b a={n}>" for n in range(1_000)) + BLOCKS,
    "<p>" + "".join(f"<code class=c{n}>" for n in range(1_000)) + BLOCKS,
    "".join(f"<a title={n}>" for n in range(1_000)) + "<!--" + "</a>" * 1_000 + "-->" + BLOCKS,
    "<table>" + "".join(f"<b class=c{n}>" for n in range(1_000)) + "<tr><td></b>" * 2_000,
    "<div>" * 4_000, "<ul><li><i>" * 1_800, "<" * 20_000, "&" * 20_000,
])
def test_a_page_is_never_much_longer_than_what_was_written(bomb: str) -> None:
    """Each paragraph would open all the styles again that are open: megabytes, in minutes."""
    assert len(clean(bomb)) < 10 * len(bomb)


def test_well_nested_html_is_left_as_it_is() -> None:
    table = (
        '<div><table class="dataframe"><thead><tr><th>a &amp; b</th></tr></thead>'
        '<tbody><tr><td colspan="2"><b>1 &lt; 2</b><br>x</td></tr></tbody></table></div>'
    )
    assert clean(table) == table
    assert clean("<P>Un <B>mot</P> de plus") == "<p>Un <b>mot</b></p> de plus"
