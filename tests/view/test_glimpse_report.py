"""The report of classifiers: its data, escaping, and size."""

import re

import pytest
import torch
from matplotlib.figure import Figure
from support.pages import NASTY, Tags, data_of, decode, picture_of
from support.tensors import assert_close, draw, draw_bytes, tiny_model

from glimpse.data import Batch
from glimpse.errors import ConfigError
from glimpse.evaluation.glimpse_traces import trace_glimpses
from glimpse.evaluation.saliency import sequential_jacobian
from glimpse.view.glimpse_report import make_report
from glimpse.view.page import write_page
from glimpse.view.tables import Table


def make_trace(*options, images=None, targets=None, class_names=("a", "b", "c"), name="hard"):
    """The trace of a tiny model at two images, of 12 x 14 unless given."""
    images = draw_bytes(2, 1, 12, 14) if images is None else images
    targets = torch.tensor([0, 2]) if targets is None else targets
    model = tiny_model(*options, image_shape=tuple(images.shape[1:]), num_classes=len(class_names)).eval()
    batch = Batch(images, targets, torch.zeros(len(images), 0, 4))
    return trace_glimpses(model, batch, name=name, class_names=class_names)


def report(traces, **changes):
    arguments = {
        "title": "A title",
        "intro": "First.\n\nSecond.",
        "traces": traces,
        "indices": range(len(traces[0].images)),
        "sensitivity": [None] * len(traces),
        "saliency": None,
        "tables": [],
        "figures": [],
    }
    return make_report(**{**arguments, **changes})


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "options",
    [(), ("--read=soft",), ("--attention.places=grid",), ("--attention.places=grid", "--read=soft")],
    ids=["hard", "soft", "grid hard", "grid soft"],
)
def test_the_data_is_that_of_the_traces(options, channels):
    trace = make_trace(*options, images=draw_bytes(2, channels, 12, 14))
    data = data_of(report([trace], indices=[17, 4]))
    assert [image["index"] for image in data["images"]] == [17, 4]
    assert [image["targets"] for image in data["images"]] == [[0], [2]]
    assert [image["label"] for image in data["images"]] == ["a", "c"]
    assert data["size"] == [14, 12]
    for image, pixels in zip(data["images"], trace.images, strict=True):
        kind, picture = picture_of(image["source"])
        assert kind == "png"
        assert torch.equal(picture.view(12, 14, channels), pixels.permute(1, 2, 0))

    (model,) = data["models"]
    soft, grid = "--read=soft" in options, "--attention.places=grid" in options
    assert (model["name"], model["mode"], model["numGlimpses"]) == ("hard", "soft" if soft else "hard", 3)
    assert (model["numScales"], model["patchSize"], model["channels"]) == (2, 4, channels)
    assert_close(torch.tensor(model["centers"]), trace.points, atol=0.0051)
    assert_close(torch.tensor(model["boxes"]), trace.boxes, atol=0.0051)
    assert not torch.equal(trace.points[:, 0], trace.points[:, 1])  # else the order would not show
    assert model["classes"] == [[0, 1, 2]] * 2
    assert_close(torch.tensor(model["probabilities"]), trace.probabilities, atol=0.00051)
    assert torch.equal(torch.tensor(model["correct"]) == 1, trace.correct)
    assert [[text.split()[0] for text in row] for row in model["predictions"]] == [
        ["abc"[best] for best in row] for row in trace.probabilities.argmax(-1)
    ]
    patches = torch.stack([decode(text, 3, 2, 4, 4, channels) for text in model["patches"]])
    assert_close(patches / 255, trace.patches, atol=0.5001 / 255)
    if soft and not grid:
        assert_close(torch.tensor(model["stds"]), trace.spread, atol=0.0051)
    else:
        assert model["stds"] is None
    if soft and grid:
        assert model["grid"] == [2, 3]
        weights = torch.stack([decode(text, 3, 2, 3) for text in model["weights"]])
        assert_close(weights / 255, trace.weights / trace.weights.amax((2, 3), keepdim=True), atol=0.5001 / 255)
    else:
        assert model["grid"] is None and model["weights"] is None


def test_sensitivity_is_relative_to_the_largest():
    traces = [make_trace(), make_trace("--num_glimpses=2", name="short")]
    sensitivity = torch.tensor([[1.0, 4.0, 2.0], [0.0, 0.0, 0.0]])
    data = data_of(report(traces, sensitivity=[sensitivity, None]))
    assert data["models"][0]["sensitivity"] == [[0.25, 1.0, 0.5], [0.0, 0.0, 0.0]]
    assert data["models"][1]["sensitivity"] is None
    assert [model["numGlimpses"] for model in data["models"]] == [3, 2]


def test_several_labels():
    targets = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    data = data_of(report([make_trace(targets=targets)]))
    assert [image["targets"] for image in data["images"]] == [[0, 2], []]
    assert [image["label"] for image in data["images"]] == ["a, c", "none"]


def test_of_many_classes_the_true_and_the_likely_are_shown():
    trace = make_trace(class_names=tuple(f"class {index}" for index in range(30)), targets=torch.tensor([29, 3]))
    probabilities = torch.full((2, 3, 30), 0.001)
    probabilities[:, 1, 7] = 0.9
    probabilities[:, 2, 28] = 0.5
    (model,) = data_of(report([trace._replace(probabilities=probabilities)]))["models"]
    assert [len(classes) for classes in model["classes"]] == [12, 12]
    for classes, target, row in zip(model["classes"], (29, 3), model["probabilities"], strict=True):
        assert classes == sorted(classes) and {7, 28, target} <= set(classes)
        assert row[1][classes.index(7)] == 0.9 and row[2][classes.index(28)] == 0.5 and row[0][0] == 0.001


def test_large_photographs_are_reduced_and_the_coordinates_kept():
    smooth = torch.linspace(0, 255, 500).expand(2, 3, 400, 500).to(torch.uint8)
    trace = make_trace(images=smooth)
    maps = torch.zeros(2, 400, 500)
    maps[1, 399, 499] = 1.0
    data = data_of(report([trace], saliency=("fc", maps)))
    kind, picture = picture_of(data["images"][0]["source"])
    assert picture.shape == (256, 320, 3)
    assert_close(picture[:, :, 0].double().mean(0), torch.linspace(0, 255, 320), atol=3)
    assert data["size"] == [500, 400]
    assert_close(torch.tensor(data["models"][0]["centers"]), trace.points, atol=0.0051)
    assert data["saliency"]["size"] == [96, 77]
    reduced = decode(data["saliency"]["maps"][1], 77, 96)
    assert reduced[-1, -1] == 255 and reduced.sum() == 255  # one pixel of all is not averaged away
    noisy = draw_bytes(2, 3, 200, 200)
    kinds = {}
    for name, images in (("smooth", smooth), ("noisy", noisy), ("gray", noisy[:, :1]), ("small", noisy[..., :50, :50])):
        data = data_of(report([make_trace(images=images)]))
        kinds[name], _ = picture_of(data["images"][0]["source"])
    assert kinds == {"smooth": "png", "noisy": "jpeg", "gray": "png", "small": "png"}


def test_saliency_of_small_images_is_as_given():
    maps = draw(2, 12, 14)
    salient = data_of(report([make_trace()], saliency=("cnn", maps)))["saliency"]
    assert (salient["name"], salient["size"]) == ("cnn", [14, 12])
    assert_close(torch.stack([decode(text, 12, 14) for text in salient["maps"]]) / 255, maps, atol=0.5001 / 255)
    assert data_of(report([make_trace()]))["saliency"] is None


def test_texts_are_escaped():
    figure = Figure()
    figure.subplots().set_title(NASTY)
    html = report(
        [make_trace(class_names=("a", NASTY, "c"), targets=torch.tensor([1, 1]), name=NASTY)],
        title=NASTY + "{{data}}",
        intro=NASTY + '"',
        saliency=(NASTY, torch.zeros(2, 12, 14)),
        tables=[Table(NASTY, [NASTY, "<i>"], [[NASTY, "<i>"]], [NASTY])],
        figures=[(NASTY + '"', figure)],
    )
    page = Tags(html)
    assert not {"b", "i"} & {tag for tag, _ in page.tags}
    assert [attributes for tag, attributes in page.tags if tag == "script"] == [
        {"type": "application/json", "id": "data"},
        {},
    ]
    data = data_of(html)
    assert data["classNames"][1] == data["images"][0]["label"] == data["models"][0]["name"] == NASTY
    assert "".join(page.text).count(NASTY) == 9  # twice the title; intro; table: 4; figure: 2
    assert "</script><b>x{{data}}" in "".join(page.text)


def test_the_page_loads_nothing():
    figure = Figure()
    figure.subplots().imshow([[0, 1]])
    html = report([make_trace()], figures=[("caption", figure)])
    sources = [
        value
        for _, attributes in Tags(html).tags
        for key, value in attributes.items()
        if key in ("src", "href", "xlink:href", "data", "action", "poster", "srcset")
    ]
    assert sources and all(value.startswith(("#", "data:")) for value in sources)
    assert set(re.findall(r"https?://[^\"'\s<)]*", html)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "@import" not in html and "@font-face" not in html
    assert "default-src 'none'" in html  # and the browser would not let it


def test_figures_take_the_colors_of_the_page():
    figures = []
    for color in ("#0072b2", "#d55e00"):
        figure = Figure()
        axes = figure.subplots()
        axes.plot([1, 2], [3, 5], marker="o", color=color, label="error")
        axes.legend()
        axes.set(title="Error & so on", xlabel="glimpse")
        figures.append((f"The caption of {color}", figure))
    page = report([make_trace()], figures=figures)
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 2
    for number, (drawing, color) in enumerate(zip(drawings, ("#0072b2", "#d55e00"), strict=True)):
        tags = Tags(drawing).tags
        assert tags[0][1]["aria-label"] == f"The caption of {color}" and tags[0][1]["fill"] == "currentColor"
        assert "#000000" not in drawing and "stroke: currentColor" in drawing and f"stroke: {color}" in drawing
        assert "fill: #ffffff" not in drawing and "fill: var(--page)" in drawing
        assert ">Error &amp; so on</text>" in drawing and ">glimpse</text>" in drawing
        ids = {attributes["id"] for _, attributes in tags if "id" in attributes}
        assert all(name.startswith(f"figure-{number}") for name in ids)
        references = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', drawing))
        assert references and references <= ids
    every = [attributes["id"] for _, attributes in Tags(page).tags if "id" in attributes]
    assert len(every) == len(set(every))
    assert page.count("<figcaption>") == 2 and '<figure class="wide">' not in page
    assert '<figure class="wide">' in report([make_trace()], figures=[("caption", Figure(figsize=(9, 3)))])


def test_tables_and_words():
    table = Table("Errors", ["model", "1", "2"], [["hard", "4.29", "3"], ["soft", "5", "6"]], ["One note.", "Another."])
    html = report([make_trace()], tables=[table, table])
    assert html.count("<h2>Errors</h2>") == 2
    assert '<tr><th scope="col">model</th><th scope="col">1</th><th scope="col">2</th></tr>' in html
    assert '<tr><th scope="row">hard</th><td>4.29</td><td>3</td></tr>' in html
    assert html.index('<th scope="row">hard</th>') < html.index('<th scope="row">soft</th>')
    assert html.count("<p>One note.</p>") == html.count("<p>Another.</p>") == 2
    assert "<title>A title</title>" in html and "<p>First.</p><p>Second.</p>" in html
    assert "{{" not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


def test_a_hundred_images_are_small():
    options = ("--num_glimpses=6", "--sensor.patch_size=12", "--sensor.num_scales=3")
    images, targets = draw_bytes(100, 1, 60, 60), torch.arange(100) % 10  # noise: no image takes more
    names = tuple("0123456789")
    traces = [
        make_trace(*options, *more, images=images, targets=targets, class_names=names)
        for more in ((), ("--read=soft",))
    ]
    model = tiny_model(*options, num_classes=10)
    sensitivity = [sequential_jacobian(model.classify_glimpses, one.rollout.glimpse_vectors, targets) for one in traces]
    html = report(traces, sensitivity=sensitivity, saliency=("cnn", draw(100, 60, 60)))
    assert len(html.encode()) < 2_500_000


def test_invalid_arguments():
    trace = make_trace()
    with pytest.raises(ValueError, match="traces must be those of 1 to 4 models, got 0"):
        make_report(title="", intro="", traces=[], indices=[], sensitivity=[], saliency=None, tables=[], figures=[])
    with pytest.raises(ValueError, match="traces must be those of 1 to 4 models, got 5"):
        report([trace] * 5)
    with pytest.raises(ValueError, match="traces must be of at least one image"):
        report([make_trace(images=draw_bytes(0, 1, 12, 14), targets=torch.zeros(0, dtype=torch.int64))])
    others = (
        make_trace(images=draw_bytes(2, 1, 12, 14, seed=1), name="other"),
        make_trace(targets=torch.tensor([0, 1]), name="other"),
        make_trace(class_names=("a", "b", "d"), name="other"),
    )
    for other in others:
        with pytest.raises(ValueError, match="same images and classes, but those of other and hard differ"):
            report([trace, other])
    with pytest.raises(ValueError, match="indices must be those of the 2 images, got 3"):
        report([trace], indices=[1, 2, 3])
    with pytest.raises(ValueError, match="sensitivity must have an entry for each of the 1 models, got 2"):
        report([trace], sensitivity=[None, None])
    with pytest.raises(ValueError, match=r"sensitivity of hard must have shape \(2, 3\), got \(2, 4\)"):
        report([trace], sensitivity=[torch.zeros(2, 4)])
    with pytest.raises(ValueError, match="the trace and sensitivity of hard must be finite"):
        report([trace], sensitivity=[torch.full((2, 3), torch.nan)])
    with pytest.raises(ValueError, match="the trace and sensitivity of hard must be finite"):
        report([trace._replace(points=trace.points / 0)])
    with pytest.raises(ValueError, match=r"saliency must have shape \(2, 12, 14\), got \(2, 14, 12\)"):
        report([trace], saliency=("cnn", torch.zeros(2, 14, 12)))
    with pytest.raises(ValueError, match=r"saliency of cnn must be in \[0, 1\], got 0.0 to 2.0"):
        report([trace], saliency=("cnn", torch.tensor([0.0, 2.0]).repeat(2, 12, 7)))


def test_write(tmp_path):
    path = tmp_path / "report.html"
    write_page(path, "\u2713")
    assert path.read_bytes() == b"\xe2\x9c\x93"
    with pytest.raises(ConfigError, match=r"cannot write the report .*nowhere/report.html: No such file or directory"):
        write_page(tmp_path / "nowhere" / "report.html", "")
