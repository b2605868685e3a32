"""The report of captions in a real browser: a word shows its attention while it is current."""

import io

import numpy as np
import pytest
from PIL import Image
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.interaction import POINTER_TOUCH
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait
from support.browser import EXTENT, browser_log, emulated, find, find_all, point_at, press, rgb
from support.captions import CAPTIONS, box_by_hand, make_caption_trace
from support.tensors import draw_bytes

from glimpse.view.caption_report import make_caption_report
from glimpse.view.drawing import ATTENTION_COLOR, MAP_OPACITY, READ_COLOR
from glimpse.view.page import write_page
from glimpse.view.tables import Table

pytestmark = pytest.mark.browser
TRACES = [
    make_caption_trace("soft", images=draw_bytes(2, 3, 20, 25), references=[[("a", "dog"), ("<b>",)], []]),
    make_caption_trace("hard", images=draw_bytes(2, 3, 20, 25), seed=1, captions=(CAPTIONS[0], ())),
]
# The color and opacity (0 to 255) of a pixel of a canvas, by trace place in the image.
PIXEL = """
const [canvas, x, y] = arguments, zoom = Number(canvas.dataset.zoom);
return [...canvas.getContext("2d").getImageData(x * zoom, y * zoom, 1, 1).data];
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    table = Table("Scores", ["", *(f"a long heading {number}" for number in range(9))], [["BLEU", *"123456789"]])
    path = tmp_path_factory.mktemp("report") / "captions.html"
    html = make_caption_report(
        title="Captions of images", intro="Words.", traces=TRACES, indices=[17, 4], tables=[table]
    )
    write_page(path, html)
    return path.as_uri()


@pytest.fixture
def page(driver, address):
    """The page, freshly opened; nothing may have gone wrong in it by the end."""
    ActionChains(driver).move_by_offset(0, 0).perform()
    driver.get("about:blank")
    driver.get(address)
    loaded = "return [...document.querySelectorAll('.picture img')].every((picture) => picture.naturalWidth)"
    WebDriverWait(driver, 10).until(lambda _: driver.execute_script(loaded))
    yield driver
    assert browser_log(driver) == []


def output(page, image, model):
    """What shows one model's caption of an image."""
    return find_all(page, ".card")[image].find_elements("css selector", ".output")[model]


def words(page, image, model):
    return output(page, image, model).find_elements("css selector", ".word")


def leave(page):
    point_at(page, find(page, "h1"))


def shown(page):
    """The image and model of each map that is shown."""
    return [
        (image, model)
        for image in range(2)
        for model in range(2)
        if output(page, image, model).find_elements("css selector", "canvas")
    ]


def check_map(page, image, model, word):
    """The map that is shown is that of the word, cell by cell."""
    trace = TRACES[model]
    (canvas,) = output(page, image, model).find_elements("css selector", "canvas")
    weights = trace.weights[image][word].flatten()
    opacities = []
    for place in range(6):
        x0, y0, x1, y1 = box_by_hand(place)
        *color, opacity = page.execute_script(PIXEL, canvas, (x0 + x1) / 2, (y0 + y1) / 2)
        opacities.append(opacity)
        if opacity > 100:  # of what is faint, few bits are left
            assert color == pytest.approx(rgb(ATTENTION_COLOR), abs=2)
    expected = 255 * MAP_OPACITY[trace.mode] * weights / weights.max()
    assert opacities == pytest.approx(expected.tolist(), abs=1.5)
    assert int(np.argmax(opacities)) == int(trace.places[image][word])
    # The square is there if the read is hard, around the place that was read.
    found = page.execute_script(EXTENT, canvas, rgb(READ_COLOR))
    if trace.mode == "soft":
        assert found is None
    else:
        zoom = float(canvas.get_attribute("data-zoom"))
        assert [edge / zoom for edge in found] == pytest.approx(box_by_hand(int(trace.places[image][word])), abs=0.2)


def test_loads_without_errors_or_requests(page):
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.title == "Captions of images"
    assert [one.text for one in find_all(page, ".card h3")] == ["Image 17", "Image 4"]
    headings = [one.text for one in find_all(page, ".output h4")]
    assert headings == ["soft, soft attention", "hard, hard attention"] * 2
    for image in range(2):
        for model, trace in enumerate(TRACES):
            assert [one.text for one in words(page, image, model)] == list(trace.captions[image])
    assert find(page, "table").is_displayed() and shown(page) == []
    assert output(page, 1, 1).find_element("css selector", ".caption").text == "(no words)"


@pytest.mark.parametrize("model", [0, 1])
def test_pointing_at_a_word_shows_its_map_until_the_pointer_leaves(page, model):
    for image in (0, 1):
        for word, button in enumerate(words(page, image, model)):
            point_at(page, button)
            assert shown(page) == [(image, model)]
            check_map(page, image, model, word)
    leave(page)
    assert shown(page) == [] and find_all(page, ".faded") == []


def test_the_keyboard_does_the_same(page):
    page.execute_script("arguments[0].focus()", find(page, ".scroll"))
    for model in (0, 1):
        for word in range(len(CAPTIONS[0])):
            press(page, Keys.TAB)
            assert shown(page) == [(0, model)]
            check_map(page, 0, model, word)
    press(page, Keys.TAB)  # on to the references
    assert shown(page) == []
    ActionChains(page).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
    check_map(page, 0, 1, len(CAPTIONS[0]) - 1)


def test_models_are_independent_and_a_click_keeps_a_word(page):
    words(page, 0, 0)[1].click()
    point_at(page, words(page, 0, 1)[2])
    assert shown(page) == [(0, 0), (0, 1)]
    check_map(page, 0, 0, 1)
    check_map(page, 0, 1, 2)
    point_at(page, words(page, 0, 0)[3])  # goes before what was clicked at,
    assert shown(page) == [(0, 0)]
    check_map(page, 0, 0, 3)
    leave(page)  # which comes back
    check_map(page, 0, 0, 1)
    find(page, "h1").click()
    assert shown(page) == []


def test_a_tap_keeps_a_word_until_the_next(page):
    for model, word in ((0, 2), (1, 1)):
        finger = ActionBuilder(page, mouse=PointerInput(POINTER_TOUCH, "finger"))
        finger.pointer_action.move_to(words(page, 0, model)[word]).pointer_down().pointer_up()
        finger.perform()
        WebDriverWait(page, 5).until(lambda _, only=(0, model): shown(page) == [only])
        check_map(page, 0, model, word)


def test_the_map_lies_exactly_on_the_image_which_fades(page):
    picture = output(page, 0, 0).find_element("css selector", ".picture")
    page.execute_script("arguments[0].scrollIntoView()", picture)

    def colors():
        """The colors at the centers of the cells, as the screen shows them."""
        pixels = np.asarray(Image.open(io.BytesIO(page.get_screenshot_as_png())).convert("RGB")).astype(int)
        left, top, width, height = page.execute_script(
            "const { x, y, width, height } = arguments[0].getBoundingClientRect(); return [x, y, width, height]",
            picture,
        )
        found = []
        for place in range(6):
            x0, y0, x1, y1 = box_by_hand(place)
            # The centers of pixels of the image, in the middle of the cells.
            x, y = (x0 + x1) // 2 + 0.5, (y0 + y1) // 2 + 0.5
            found.append(pixels[int(top + y * height / 20), int(left + x * width / 25)])
        return np.array(found)

    plain = TRACES[0].images[0].permute(1, 2, 0).numpy()
    centers = [((y0 + y1) // 2, (x0 + x1) // 2) for x0, y0, x1, y1 in map(box_by_hand, range(6))]
    expected = np.array([plain[center] for center in centers]).astype(int)
    assert np.abs(colors() - expected).max() <= 3
    page.execute_script("arguments[0].focus({ preventScroll: true })", words(page, 0, 0)[2])
    weights = TRACES[0].weights[0][2].flatten().numpy()
    opacity = (MAP_OPACITY["soft"] * weights / weights.max())[:, None]
    gray = 0.6 * expected @ np.array([0.2126, 0.7152, 0.0722])
    mixed = opacity * np.array(rgb(ATTENTION_COLOR)) + (1 - opacity) * gray[:, None]
    assert np.abs(colors() - mixed).max() <= 5


def test_words_are_labeled_with_their_place(page):
    soft, hard = words(page, 0, 0)[1], words(page, 0, 1)[1]
    assert [int(trace.places[0][1]) for trace in TRACES] == [5, 0]
    assert soft.get_attribute("aria-label") == "small: attended most at row 2 of 2, column 3 of 3"
    assert hard.get_attribute("aria-label") == "small: read at row 1 of 2, column 1 of 3"
    assert soft.tag_name == "button"
    assert [one.get_attribute("alt") for one in find_all(page, ".picture img")] == ["Image 17"] * 2 + ["Image 4"] * 2


def test_references_are_folded_away(page):
    first, second = find_all(page, "details")
    assert first.text == "2 references" and not second.is_displayed()
    first.find_element("css selector", "summary").click()
    assert [one.text for one in first.find_elements("css selector", "li")] == ["a dog", "<b>"]


def test_words_and_names_are_escaped(driver, tmp_path):
    strange = "</script><script>document.title = 'broken'</script> <b>&amp;</b> \"'"
    trace = make_caption_trace("soft", captions=((strange, "b"),), name=strange, references=[[(strange,)]])
    table = Table(strange, ["", strange], [[strange, "1"]], [strange])
    html = make_caption_report(title=strange, intro=strange, traces=[trace], indices=[0], tables=[table])
    write_page(tmp_path / "strange.html", html)
    driver.get((tmp_path / "strange.html").as_uri())
    plain = " ".join(strange.split())
    assert driver.title == plain and find(driver, "h1").text == plain
    assert [word.text for word in find_all(driver, ".word")] == [plain, "b"]
    assert find(driver, ".output h4").text == f"{plain}, soft attention"
    assert find(driver, ".references li").get_attribute("textContent") == strange
    assert [cell.text for cell in find_all(driver, "th")] == ["", plain, plain]
    assert find_all(driver, "b") == [] and len(find_all(driver, "script")) == 2
    assert browser_log(driver) == []


def test_dark_and_light(page):
    background = "return getComputedStyle(document.body).backgroundColor"
    light = page.execute_script(background)
    find(page, "#theme").click()
    dark = page.execute_script(background)
    assert light == "rgb(252, 252, 251)" and dark == "rgb(22, 24, 27)"


def test_a_phone_does_not_scroll_sideways(page):
    phone = {"width": 375, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    with emulated(page, "setDeviceMetricsOverride", undo="clearDeviceMetricsOverride", **phone):
        assert page.execute_script("return document.documentElement.scrollWidth") <= 375
        wide, box = page.execute_script(
            "const box = document.querySelector('.scroll'); return [box.scrollWidth, box.clientWidth]"
        )
        assert wide > box  # the table scrolls in trace own
        assert len({one.rect["x"] for one in find_all(page, ".output")}) == 1  # one below the other
