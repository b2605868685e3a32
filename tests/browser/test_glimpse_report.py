"""The report of classifiers in a real browser: what it shows, and its controls."""

import time

import pytest
import torch
from matplotlib.figure import Figure
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait
from support.browser import EXTENT, browser_log, emulated, find, find_all, press, rgb
from support.tensors import draw, draw_bytes, tiny_model

from glimpse.data import Batch
from glimpse.evaluation.glimpse_traces import trace_glimpses
from glimpse.view.drawing import SCALE_COLORS, TRAIL_COLOR
from glimpse.view.glimpse_report import make_report
from glimpse.view.page import write_page
from glimpse.view.tables import Table

pytestmark = pytest.mark.browser
INDICES = [10, 11, 12, 13, 14, 15]
TARGETS = torch.tensor([0, 1, 2, 0, 1, 2])
HARD_RIGHT = torch.tensor([1, 1, 0, 1, 0, 1]) == 1
SOFT_RIGHT = torch.tensor([1, 0, 0, 1, 1, 1]) == 1
# The finest square of each glimpse of the hard model, 4 pixels wide, on images 32 wide and 24 high.
CORNERS = torch.tensor([[14.0, 10.0], [4.0, 3.0], [22.0, 15.0]])

PIXEL = 'return [...arguments[0].getContext("2d").getImageData(arguments[1], arguments[2], 1, 1).data];'


def make_traces():
    """Two models whose predictions and locations are known: a hard one with 3 glimpses, a soft one with 2."""
    batch = Batch(draw_bytes(6, 1, 24, 32) // 2, TARGETS, torch.zeros(6, 0, 4))
    hard, soft = (
        trace_glimpses(tiny_model(*options, image_shape=(1, 24, 32)), batch, name=name, class_names=("a", "b", "<b>c"))
        for name, options in (("sharp", ()), ("blurred", ("--read=soft", "--num_glimpses=2")))
    )
    start = CORNERS.view(1, 3, 1, 2) - torch.tensor([0.0, 2.0]).view(2, 1)
    boxes = torch.cat([start, start + torch.tensor([4.0, 8.0]).view(2, 1)], -1).expand(6, 3, 2, 4)
    points = (CORNERS + 2).expand(6, 3, 2)
    hard = hard._replace(boxes=boxes, points=points, correct=HARD_RIGHT.unsqueeze(1).expand(6, 3))
    return [hard, soft._replace(correct=torch.stack([~SOFT_RIGHT, SOFT_RIGHT], 1))]


def make_page(folder, salient=True):
    figure = Figure()
    figure.subplots().plot([1, 2], [3, 5])
    table = Table("Numbers", ["model", *(f"a long heading {number}" for number in range(9))], [["sharp", *"123456789"]])
    html = make_report(
        title="Where two models look",
        intro="Words.",
        traces=make_traces(),
        indices=INDICES,
        sensitivity=[torch.tensor([1.0, 4.0, 2.0]).expand(6, 3), None],
        saliency=("cnn", draw(6, 24, 32)) if salient else None,
        tables=[table],
        figures=[("A figure.", figure)],
    )
    path = folder / f"report-{salient}.html"
    write_page(path, html)
    return path.as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return make_page(tmp_path_factory.mktemp("report"))


@pytest.fixture
def page(driver, address):
    """The page, freshly opened; nothing may have gone wrong in it by the end."""
    open_page(driver, address)
    yield driver
    assert browser_log(driver) == []


def open_page(driver, address):
    driver.get("about:blank")  # another fragment alone would not load it again
    driver.get(address)
    loaded = "return [...document.querySelectorAll('.thumbnail img')].every((picture) => picture.naturalWidth)"
    WebDriverWait(driver, 10).until(lambda _: driver.execute_script(loaded))


def status(page):
    return find(page, "#status").text


def extent(page, color):
    """Where a color is on the canvas of the first model, in pixels of the image."""
    canvas = find(page, ".model canvas.view")
    found = page.execute_script(EXTENT, canvas, rgb(color))
    return None if found is None else [value / float(canvas.get_attribute("data-zoom")) for value in found]


def shown(page):
    return [int(one.get_attribute("data-index")) for one in find_all(page, ".thumbnail") if one.is_displayed()]


def test_loads_without_errors_or_requests(page):
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.title == "Where two models look"
    assert status(page) == "Image 10, class a: glimpse 1 of 3"
    assert [one.text for one in find_all(page, ".panel .name")] == ["sharp", "blurred", "cnn"]
    assert not find(page, "#no-saliency").is_displayed()
    assert find(page, "figure svg").is_displayed() and find(page, "table").is_displayed()


def test_buttons_and_keys_step(page):
    for press_next, press_previous in (
        (find(page, "#next").click, find(page, "#previous").click),
        (lambda: press(page, Keys.ARROW_RIGHT), lambda: press(page, Keys.ARROW_LEFT)),
    ):
        press_next()
        assert status(page) == "Image 10, class a: glimpse 2 of 3"
        assert find(page, "#scrub").get_attribute("value") == "2"
        press_next()
        press_next()  # there is no fourth
        assert status(page) == "Image 10, class a: glimpse 3 of 3"
        press_previous()
        assert status(page) == "Image 10, class a: glimpse 2 of 3"
        press_previous()
        press_previous()
        assert status(page) == "Image 10, class a: glimpse 1 of 3"
    press(page, Keys.END)
    assert status(page) == "Image 10, class a: glimpse 3 of 3"
    press(page, "n")
    assert status(page) == "Image 11, class b: glimpse 3 of 3"
    press(page, Keys.HOME, "n")
    assert status(page) == "Image 12, class <b>c: glimpse 1 of 3"
    press(page, "p", "p", "p")  # round the first to the last
    assert status(page) == "Image 15, class <b>c: glimpse 1 of 3"
    find(page, "#next-image").click()
    find(page, "#previous-image").click()
    find(page, "#previous-image").click()
    assert status(page) == "Image 14, class b: glimpse 1 of 3"
    find(page, ".thumbnail[data-index='13']").click()
    assert status(page) == "Image 13, class a: glimpse 1 of 3"


def test_controls_keep_the_keys_they_need(page):
    find(page, "#scrub").click()
    press(page, Keys.HOME)
    assert status(page).endswith("glimpse 1 of 3")
    press(page, Keys.ARROW_RIGHT)  # the slider moves by one, and the page does not move it once more
    assert status(page).endswith("glimpse 2 of 3")
    page.execute_script("document.getElementById('class-filter').focus()")
    press(page, Keys.ARROW_DOWN)
    assert find(page, "#class-filter").get_attribute("value") == "0"
    assert status(page).endswith("glimpse 2 of 3")
    page.execute_script("document.getElementById('next').focus()")
    press(page, Keys.SPACE)  # presses the button; does not play
    assert status(page).endswith("glimpse 3 of 3") and find(page, "#play").text == "Play"
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.execute_script(outline) == "solid"


@pytest.mark.parametrize("step", [0, 1, 2])
def test_the_boxes_are_those_of_the_current_glimpse(page, step):
    press(page, *[Keys.ARROW_RIGHT] * step)

    def is_around(corner, side, color):
        found = extent(page, color)
        expected = [corner[0], corner[1], corner[0] + side, corner[1] + side]
        return all(abs(value - edge) < 0.2 for value, edge in zip(found, expected, strict=True))

    coarse = SCALE_COLORS[1]
    current, other = ((CORNERS[number % 3] - 2).tolist() for number in (step, step + 1))
    assert is_around(current, 8, coarse)
    assert not is_around(other, 8, coarse)
    # The trail has the color of the finest square too, but comes not by the left edges, 3 pixels down.
    canvas = find(page, ".model canvas.view")
    zoom = float(canvas.get_attribute("data-zoom"))
    fine = [
        page.execute_script(PIXEL, canvas, left * zoom, (top + 3) * zoom)[:3] == rgb(SCALE_COLORS[0])
        for left, top in CORNERS.tolist()
    ]
    assert fine == [number == step for number in range(3)]


def test_patches_bars_and_words(page):
    hard, soft = make_traces()
    press(page, "n", Keys.ARROW_RIGHT)
    panel = find(page, ".model")
    for scale, canvas in enumerate(panel.find_elements("css selector", ".patches canvas")):
        pixel = page.execute_script(PIXEL, canvas, 3, 1)
        value = round(255 * float(hard.patches[1, 1, scale, 1, 3, 0]))  # row 1, column 3
        assert pixel == [value, value, value, 255]
    widths = [
        float(bar.get_attribute("style").split()[1].strip("%;"))
        for bar in panel.find_elements("css selector", ".bars .bar")
    ]
    assert widths == pytest.approx([100 * float(value) for value in hard.probabilities[1, 1]], abs=0.051)
    labels = [one.text for one in panel.find_elements("css selector", ".bars .label")]
    assert labels == ["a", "\u25b8 b", "<b>c"]  # the true class is marked
    current = panel.find_elements("css selector", ".column.current")
    assert [column.text for column in current] == ["2"]
    heights = [bar.size["height"] for bar in panel.find_elements("css selector", ".column .bar")]
    assert [height / heights[1] for height in heights] == pytest.approx([0.25, 1, 0.5], abs=0.03)
    verdicts = [one.text for one in find_all(page, ".verdict")]
    assert verdicts == ["\u2713 correct", "\u2717 wrong"]
    assert not find_all(page, ".model .sensitivity")[1].is_displayed()


def test_models_show_the_same_image_and_stay_at_their_last_glimpse(page):
    images = make_traces()[0].images
    for index in (10, 12):
        find(page, f".thumbnail[data-index='{index}']").click()
        press(page, Keys.END)
        assert [one.text for one in find_all(page, ".step")] == ["glimpse 3 of 3", "glimpse 2 of 2"]
        for canvas in find_all(page, ".model canvas.view"):
            zoom = float(canvas.get_attribute("data-zoom"))
            value = int(images[index - 10, 0, 23, 0])  # the bottom left corner, where nothing is drawn
            assert page.execute_script(PIXEL, canvas, zoom / 2, 23.5 * zoom) == [value, value, value, 255]


def test_play_stops_at_the_end_and_restarts(page):
    page.execute_script(
        """
        window.seen = [];
        const text = (id) => document.getElementById(id).textContent;
        const note = () => seen.push([text("play"), text("status").slice(-"glimpse 1 of 3".length)].join(", "));
        new MutationObserver(note).observe(document.getElementById("stage"), { childList: true, subtree: true });
        """
    )

    def seen():
        return list(dict.fromkeys(page.execute_script("return seen.splice(0)")))

    Select(find(page, "#speed")).select_by_visible_text("fast")
    find(page, "#play").click()
    WebDriverWait(page, 20).until(lambda _: status(page).endswith("glimpse 3 of 3"))
    time.sleep(0.7)  # twice as long as a glimpse: long enough to see that it stopped
    assert seen() == ["Pause, glimpse 1 of 3", "Pause, glimpse 2 of 3", "Play, glimpse 3 of 3"]
    Select(find(page, "#speed")).select_by_visible_text("slow")
    page.execute_script("document.activeElement.blur()")
    press(page, Keys.SPACE, Keys.SPACE)
    time.sleep(1.6)
    assert seen() == ["Pause, glimpse 1 of 3", "Play, glimpse 1 of 3"]


def test_scrubbing(page):
    set_value = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))"
    for value in (3, 2):
        page.execute_script(set_value, find(page, "#scrub"), value)
        assert status(page) == f"Image 10, class a: glimpse {value} of 3"
    assert extent(page, SCALE_COLORS[1])[:2] == pytest.approx((CORNERS[1] - 2).tolist(), abs=0.2)


def test_filters(page):
    for of_class, answers, expected in (
        ("b", "all", [11, 14]),
        ("<b>c", "all", [12, 15]),
        ("all", "all correct", [10, 13, 15]),
        ("all", "some wrong", [11, 12, 14]),
        ("all", "sharp wrong", [12, 14]),
        ("all", "blurred wrong", [11, 12]),
        ("b", "sharp wrong", [14]),
        ("a", "some wrong", []),
        ("all", "all", [10, 11, 12, 13, 14, 15]),
    ):
        Select(find(page, "#class-filter")).select_by_visible_text(of_class)
        Select(find(page, "#correctness-filter")).select_by_visible_text(answers)
        assert shown(page) == expected
        assert find(page, "#count").text == f"{len(expected)} of 6 images"
        assert find(page, "#no-match").is_displayed() == (not expected)
        assert find(page, "#stage").is_displayed() == bool(expected)
        if expected:
            visited = []
            for _ in expected:
                visited.append(int(status(page).split()[1].strip(",")))
                find(page, "#next-image").click()
            assert sorted(visited) == expected  # and back at the first


def test_implicit_attention_is_drawn_with_the_trail(page):
    canvas = find(page, ".saliency canvas.view")
    trail = rgb(TRAIL_COLOR)
    zoom = float(canvas.get_attribute("data-zoom"))
    disc = page.execute_script(EXTENT, canvas, trail)
    assert [(disc[0] + disc[2]) / 2 / zoom, (disc[1] + disc[3]) / 2 / zoom] == pytest.approx([16, 12], abs=0.1)
    press(page, Keys.ARROW_RIGHT)
    assert page.execute_script(EXTENT, canvas, trail)[0] / zoom < 6  # on to the second glimpse
    flat = draw(6, 24, 32)[0].flatten()
    brightness = [
        sum(page.execute_script(PIXEL, canvas, (place % 32 + 0.5) * zoom, (place // 32 + 0.5) * zoom)[:3])
        for place in (int(flat.argmin()), int(flat.argmax()))
    ]
    assert brightness[1] > 2 * brightness[0]


def test_without_a_whole_image_network_the_page_explains_how_to_add_one(driver, tmp_path):
    open_page(driver, make_page(tmp_path, salient=False))
    assert "python train.py configs/cluttered60_cnn.yaml" in find(driver, "#no-saliency").text
    assert find_all(driver, ".saliency") == []
    assert browser_log(driver) == []


def test_dark_and_light(page):
    def colors():
        style = (
            "const style = getComputedStyle(arguments[0]); return [style.backgroundColor, style.color, style.stroke]"
        )
        body = page.execute_script(style, find(page, "body"))
        axis = page.execute_script(style, find(page, "figure svg [style*='currentColor']"))
        assert axis[2] == body[1]  # figures have the ink of the page
        return body[:2]

    def brightness(color):
        return sum(map(int, color.removeprefix("rgb(").removesuffix(")").split(",")))

    light = colors()
    assert brightness(light[0]) > 600 and brightness(light[1]) < 200
    find(page, "#theme").click()
    dark = colors()
    assert brightness(dark[0]) < 120 and brightness(dark[1]) > 600
    find(page, "#theme").click()
    assert colors() == light
    preference = [{"name": "prefers-color-scheme", "value": "dark"}]
    with emulated(page, "setEmulatedMedia", features=preference):
        open_page(page, page.current_url)
        assert colors() == dark


def test_a_phone_does_not_scroll_sideways(page):
    phone = {"width": 375, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    with emulated(page, "setDeviceMetricsOverride", undo="clearDeviceMetricsOverride", **phone):
        assert page.execute_script("return document.documentElement.scrollWidth") <= 375
        scroll = "const box = document.querySelector('.scroll'); return [box.scrollWidth, box.clientWidth]"
        wide, box = page.execute_script(scroll)
        assert wide > box  # the table scrolls in its own
        lefts = {one.rect["x"] for one in find_all(page, ".panel")}
        assert len(lefts) == 1  # one below the other


def test_the_current_thumbnail_comes_into_view_and_the_page_stays(page):
    # A single column in a low box: no two thumbnails fit.
    page.execute_script("document.getElementById('thumbnails').style.cssText = 'height: 50px; width: 60px'")
    page.execute_script("scrollTo(0, document.getElementById('panels').offsetTop)")
    before = page.execute_script("return scrollY")
    assert before > 0
    inside = """
        const box = document.getElementById("thumbnails").getBoundingClientRect();
        const thumbnail = document.querySelector(".thumbnail[aria-current='true']").getBoundingClientRect();
        return box.top <= thumbnail.top && thumbnail.bottom <= box.bottom;
    """
    for key in ("n", "n", "p", "p", "p"):
        press(page, key)
        assert page.execute_script(inside)
        assert page.execute_script("return scrollY") == before


def test_the_address_keeps_image_and_glimpse(driver, address):
    open_page(driver, f"{address}#image=13&glimpse=2")
    assert status(driver) == "Image 13, class a: glimpse 2 of 3"
    press(driver, "n", Keys.ARROW_RIGHT)
    WebDriverWait(driver, 5).until(lambda _: driver.current_url.endswith("#image=14&glimpse=3"))
    for wrong in ("#image=99&glimpse=7", "#image=x&glimpse=1.5"):
        open_page(driver, address + wrong)
        assert status(driver).startswith("Image 10, class a: glimpse")
    assert browser_log(driver) == []
