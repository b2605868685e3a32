"""The browser for tests of HTML pages, and helpers to use it."""

import os
import shutil
from contextlib import contextmanager

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
)
# The smallest and largest x and y of the pixels of a canvas that have a color, or null if there are none.
EXTENT = """
const [canvas, color] = arguments;
const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
const x = [], y = [];
for (let place = 0; place < data.length / 4; place++) {
  if (color.every((value, channel) => data[4 * place + channel] === value)) {
    x.push(place % canvas.width);
    y.push(Math.floor(place / canvas.width));
  }
}
return x.length ? [Math.min(...x), Math.min(...y), Math.max(...x) + 1, Math.max(...y) + 1] : null;
"""


def find_browser():
    """The paths of chromium and chromedriver; without them the test is skipped, or fails if a browser is required."""
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        reason = "chromium and chromedriver are needed to see the page as a browser shows it"
        if os.environ.get("GLIMPSE_REQUIRE_BROWSER") == "1":
            pytest.fail(f"GLIMPSE_REQUIRE_BROWSER is 1, but {reason}", pytrace=False)
        pytest.skip(reason)
    return programs


def start_browser(profile):
    """A headless browser with its profile in a folder."""
    program, driver = find_browser()
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(executable_path=driver))


def browser_log(driver):
    """The log of the browser, without its advice on how these tests read pixels."""
    return [entry for entry in driver.get_log("browser") if "getImageData are faster" not in entry["message"]]


@contextmanager
def emulated(driver, command, undo=None, **settings):
    driver.execute_cdp_cmd(f"Emulation.{command}", settings)
    try:
        yield
    finally:  # all tests share the browser
        driver.execute_cdp_cmd(f"Emulation.{undo or command}", {})


def find(page, selector):
    return page.find_element("css selector", selector)


def find_all(page, selector):
    return page.find_elements("css selector", selector)


def press(page, *keys):
    ActionChains(page).send_keys(*keys).perform()


def point_at(page, element):
    ActionChains(page).move_to_element(element).perform()


def rgb(color):
    return [int(color[start : start + 2], 16) for start in (1, 3, 5)]
