"""What all tests share."""

import os

# One thread each: the tests run side by side, and bit-for-bit comparisons need a fixed number.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(parser):
    parser.addoption("--regenerate", action="store_true", help="write tests/expected anew instead of comparing with it")
