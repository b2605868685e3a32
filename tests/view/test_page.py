"""The base page of all reports: texts are escaped."""

import json
import re
from pathlib import Path

import pytest
from support.browser import find_browser
from support.pages import Tags, data_of

from glimpse.view import page
from glimpse.view.page import render_page
from glimpse.view.tables import Table

PAGES = Path(page.__file__).with_name("pages")
STRANGE = (
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "a & b &amp; c",
    "\"double\" and 'single'",
    "{{ title }} {% raw %} {# no #}",
    "\\u003c \\ \u2028 é 漢",
)


def render(**changes):
    arguments = {"title": "A title", "intro": "Words.", "tables": [], "data": {}}
    return render_page("caption_report.html", **{**arguments, **changes})


@pytest.mark.parametrize("text", STRANGE)
def test_texts_are_escaped_without_change(text):
    table = Table(text, [text, text], [[text, text]], [text])
    html = render(title=text, intro=f"{text}\n\n{text}", tables=[table], data={text: [text]})
    plain = Tags(render(title="x", intro="x\n\nx", tables=[Table("x", ["x", "x"], [["x", "x"]], ["x"])]))
    found = Tags(html)
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in plain.tags]  # no element more, and none less
    assert "".join(found.text).count(text) == 10  # title twice, intro twice, table: six
    assert [attributes["aria-label"] for _, attributes in found.tags if "aria-label" in attributes] == [text]
    assert data_of(html) == {text: [text]}


def test_data_keep_their_order_and_are_compact():
    html = render(data={"b": [1, 2.5], "a": None})
    (text,) = re.findall(r'id="data">(.*?)</script>', html)
    assert text == '{"b":[1,2.5],"a":null}' and list(json.loads(text)) == ["b", "a"]
    with pytest.raises(ValueError, match="Out of range float values"):
        render(data={"a": float("nan")})


def test_blank_lines_separate_paragraphs():
    assert "<p>One\ntwo.</p><p>Three.</p>" in render(intro="One\ntwo.\n \n\nThree.\n")
    assert '<div class="intro"></div>' in render(intro="")


def test_a_variable_that_is_missing_is_an_error():
    with pytest.raises(Exception, match="'has_spans' is undefined"):
        render_page("translation_report.html", title="", intro="", tables=[], data={})


def test_every_file_of_the_pages_is_used():
    """Scripts and styles are included as templates, so they must come out unchanged."""
    pages = [
        render(),
        render_page("translation_report.html", title="", intro="", tables=[], data={}, has_spans=True),
        render_page("glimpse_report.html", title="", intro="", tables=[], data={}, figures=[]),
    ]
    sources = [path for path in PAGES.iterdir() if path.suffix in (".js", ".css")]
    assert len(sources) == 6
    for path in sources:
        assert any(path.read_text().strip() in html for html in pages), path.name
    for html in pages:
        assert html.startswith("<!DOCTYPE html>") and "{{" not in html and "{%" not in html


def test_without_a_browser_its_tests_are_skipped_unless_it_is_required(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("GLIMPSE_REQUIRE_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="chromium and chromedriver are needed"):
        find_browser()
    monkeypatch.setenv("GLIMPSE_REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="GLIMPSE_REQUIRE_BROWSER is 1, but chromium and chromedriver are"):
        find_browser()
