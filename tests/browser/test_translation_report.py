"""The report of translations in a real browser: a word shades the source words while it is current."""

import re

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from support.browser import browser_log, emulated, find, find_all, point_at, press, rgb
from support.translations import PAIRS, WORDS, make_translation_trace

from glimpse.view.drawing import ATTENTION_COLOR
from glimpse.view.page import write_page
from glimpse.view.translation_report import make_translation_report

pytestmark = pytest.mark.browser
ALIGNED = [
    make_translation_trace("soft", words=(PAIRS[0].references[0], WORDS[1])),  # the first is right
    make_translation_trace("hard", seed=1),
    make_translation_trace(None, words=(WORDS[0], ())),
]
# Of each element the color of its background and the classes that mark it.
LOOKS = """
return arguments[0].map((one) => [
  getComputedStyle(one).backgroundColor, ["read", "aligned"].map((name) => one.classList.contains(name)),
]);
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "translations.html"
    html = make_translation_report(title="Translated", intro="Words.", traces=ALIGNED, indices=[17, 4], tables=[])
    write_page(path, html)
    return path.as_uri()


@pytest.fixture
def page(driver, address):
    """The page, freshly opened; nothing may have gone wrong in it by the end."""
    driver.get("about:blank")
    driver.get(address)
    yield driver
    assert browser_log(driver) == []


def output(page, sentence, model):
    return find_all(page, ".card")[sentence].find_elements("css selector", ".output")[model]


def part(page, sentence, model, selector):
    return output(page, sentence, model).find_elements("css selector", selector)


def opacity(color):
    """Of a color, which must be that of attention if it can be seen."""
    *parts, alpha = (float(number) for number in re.findall(r"[\d.]+", color.replace("rgb(", "rgba(")))
    if len(parts) == 2:
        return 1.0  # three numbers: opaque
    assert alpha == 0 or parts == rgb(ATTENTION_COLOR)
    return alpha


def check_shades(page, elements, sentence, model, word):
    """Elements, one for each source word, are shaded as they are for a word; for none if that is None."""
    one = ALIGNED[model].translations[sentence]
    start, stop = (0, 0) if word is None or word >= len(one.pair.alignment_spans) else one.pair.alignment_spans[word]
    found = page.execute_script(LOOKS, elements)
    weights = [0.0] * len(one.pair.source) if word is None else one.weights[word].tolist()
    assert [opacity(color) for color, _ in found] == pytest.approx(weights, abs=0.005)
    read = None if word is None or ALIGNED[model].mode == "soft" else int(one.places[word])
    assert [marks for _, marks in found] == [[place == read, start <= place < stop] for place in range(len(weights))]


def test_loads_without_errors_or_requests(page):
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert [one.text for one in find_all(page, ".card h3")] == ["Sentence 17", "Sentence 4"]
    assert [one.text for one in find_all(page, ".output h4")] == [
        "soft, soft attention correct",
        "hard, hard attention wrong",
        "none, no attention wrong",
        "soft, soft attention wrong",
        "hard, hard attention wrong",
        "none, no attention wrong",
    ]
    for sentence, pair in enumerate(PAIRS):
        for model, its in enumerate(ALIGNED):
            assert [one.text for one in part(page, sentence, model, ".source-word")] == list(pair.source)
            assert [one.text for one in part(page, sentence, model, ".word")] == list(its.translations[sentence].words)
    assert part(page, 1, 2, ".caption")[0].text == "(no words)"
    assert part(page, 0, 2, "button.word") == part(page, 0, 2, ".heatmap") == []  # there is nothing to point at


@pytest.mark.parametrize("model", [0, 1])
def test_pointing_at_a_word_shades_the_source_until_the_pointer_leaves(page, model):
    for sentence in (0, 1):
        for word, button in enumerate(part(page, sentence, model, ".word")):
            point_at(page, button)
            check_shades(page, part(page, sentence, model, ".source-word"), sentence, model, word)
    check_shades(page, part(page, 0, model, ".source-word"), 0, model, None)
    point_at(page, find(page, "h1"))
    check_shades(page, part(page, 1, model, ".source-word"), 1, model, None)


def test_the_keyboard_does_the_same_and_words_are_labeled(page):
    first = part(page, 0, 1, ".word")[0]
    first.click()
    point_at(page, find(page, "h1"))  # what was clicked at keeps the focus
    check_shades(page, part(page, 0, 1, ".source-word"), 0, 1, 0)
    press(page, Keys.TAB)
    check_shades(page, part(page, 0, 1, ".source-word"), 0, 1, 1)
    weights = ALIGNED[1].translations[0].weights
    assert first.get_attribute("aria-label") == f"0: read the, word 2 of 6, {100 * float(weights[0, 1]):.0f}%"
    soft = part(page, 0, 0, ".word")[0].get_attribute("aria-label")
    assert soft.startswith("0: attended most to on, word 1 of 6, ")


def test_heat_maps_show_all_words_and_open_together(page):
    assert [part(page, 0, model, ".heatmap")[0].get_attribute("open") for model in (0, 1)] == ["true", "true"]
    assert part(page, 1, 0, ".heatmap table") == []
    part(page, 1, 1, ".heatmap summary")[0].click()
    for sentence in (0, 1):
        for model in (0, 1):
            rows = part(page, sentence, model, ".heatmap tbody tr")
            one = ALIGNED[model].translations[sentence]
            assert [row.find_element("css selector", "th").text for row in rows] == list(one.words)
            heads = part(page, sentence, model, ".heatmap thead th")
            assert [head.text for head in heads] == list(one.pair.source)
            for word, row in enumerate(rows):
                check_shades(page, row.find_elements("css selector", "td"), sentence, model, word)
    # A row stands for its word, and the word marks its row.
    point_at(page, part(page, 1, 1, ".heatmap tbody tr")[1])
    check_shades(page, part(page, 1, 1, ".source-word"), 1, 1, 1)
    marked = [row.get_attribute("class") for row in part(page, 1, 1, ".heatmap tbody tr")]
    assert marked == ["", "current"]
    part(page, 1, 0, ".heatmap summary")[0].click()
    assert [part(page, 1, model, ".heatmap")[0].get_attribute("open") for model in (0, 1)] == [None, None]


def test_sentences_are_picked_and_filtered(page):
    def left():
        return [card.get_attribute("data-index") for card in find_all(page, ".card") if card.is_displayed()]

    answers, sentence = (Select(find(page, f"#{name}-filter")) for name in ("correctness", "sentence"))
    assert [option.text for option in answers.options] == [
        "all", "all correct", "some wrong", "soft wrong", "hard wrong", "none wrong",
    ]  # fmt: skip
    expected = {
        "all correct": [],
        "some wrong": ["17", "4"],
        "soft wrong": ["4"],
        "hard wrong": ["17", "4"],
        "all": ["17", "4"],
    }
    for name, indices in expected.items():
        answers.select_by_visible_text(name)
        assert left() == indices and find(page, "#count").text == f"{len(indices)} of 2 sentences"
    sentence.select_by_visible_text("4: 2 $may_$")
    assert left() == ["4"]


def test_a_phone_does_not_scroll_sideways_and_dark_is_dark(page):
    find(page, "#theme").click()
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 27)"
    phone = {"width": 375, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    with emulated(page, "setDeviceMetricsOverride", undo="clearDeviceMetricsOverride", **phone):
        assert page.execute_script("return document.documentElement.scrollWidth") <= 375
