"""Read the data, pictures and tags of an HTML page."""

import base64
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import torch
from PIL import Image

NASTY = "</script><b>x"


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


def decode(text, *shape):
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8).view(shape)


def picture_of(source):
    kind, content = re.fullmatch(r"data:image/(\w+);base64,(.*)", source).groups()
    return kind, torch.from_numpy(np.array(Image.open(io.BytesIO(base64.b64decode(content)))))


class Tags(HTMLParser):
    """The tags of a page, and its text outside scripts and styles."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] not in ("script", "style"):
            self.text.append(data)
