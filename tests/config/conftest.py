"""Fixtures of the tests of settings."""

import pytest

from glimpse.errors import ConfigError
from glimpse.tasks.settings import load_config


@pytest.fixture
def write(tmp_path):
    """Writes a config file."""

    def write(content):
        path = tmp_path / "settings.yaml"
        path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content, encoding="utf-8")
        return path

    return write


@pytest.fixture
def refused(write):
    """The error message for wrong arguments or file content, always one line; the file is called FILE in it."""

    def refused(*arguments, content=None):
        file = None if content is None else write(content)
        with pytest.raises(ConfigError) as caught:
            config = load_config(arguments, file=file)
            pytest.fail(f"{arguments} {content} were accepted: {config!r}")
        message = str(caught.value)
        for internal in ("\n", "<class", "typing.", "pydantic", "NoneType", "None"):
            assert internal not in message
        return message.replace(str(file), "FILE")

    return refused
