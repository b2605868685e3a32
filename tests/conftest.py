"""What all tests share."""

import os

import pytest

# One thread each: the tests run side by side, and bit-for-bit comparisons need a fixed number.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """A browser, the same for all tests."""
    from support.browser import start_browser  # here, as only these tests need selenium

    browser = start_browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()
