"""Animations of glimpses: each glimpse in its frame, and the file formats."""

import functools
import subprocess
import sys

import imageio_ffmpeg
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import Ellipse, Rectangle
from PIL import Image
from support.tensors import assert_close, draw_bytes, tiny_model

from glimpse.data import Batch
from glimpse.errors import ConfigError
from glimpse.evaluation.glimpse_traces import trace_glimpses
from glimpse.view import video
from glimpse.view.drawing import CORRECT_COLOR, OTHER_BAR_COLOR, WRONG_COLOR
from glimpse.view.glimpse_animation import draw_frame, frames, save_animation

NAMES = ("a", "b", "c")


def make_trace(*options, shape=(1, 20, 30), targets=(0, 2), names=NAMES, images=None, name="model"):
    """The trace of a tiny model at sampled locations."""
    model = tiny_model("--attention.squash=false", *options, image_shape=shape, num_classes=len(names)).eval()
    images = draw_bytes(2, *shape) if images is None else images
    batch = Batch(images, torch.as_tensor(targets), torch.zeros(len(images), 0, 4))
    return trace_glimpses(model, batch, name=name, class_names=names, sample=True, seed=1)


def with_probabilities(trace, probabilities):
    """The same trace with other probabilities (T, classes), equal for all images."""
    probabilities = torch.as_tensor(probabilities).expand_as(trace.probabilities)
    if trace.targets.is_floating_point():
        correct = ((probabilities > 0.5) == trace.targets.unsqueeze(1).bool()).all(-1)
    else:
        correct = probabilities.argmax(-1) == trace.targets.unsqueeze(1)
    return trace._replace(probabilities=probabilities, correct=correct)


def strip(figure, model=0):
    """The axes of the image, the patches and the bars of a model."""
    return figure.axes[3 * model : 3 * model + 3]


def rectangles(axes):
    return [
        (*patch.get_xy(), patch.get_width(), patch.get_height())
        for patch in axes.patches
        if isinstance(patch, Rectangle)
    ]


def colors(axes):
    return [to_hex(bar.get_facecolor()).upper() for bar in axes.patches]


def words(axes):
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("places", ["plane", "grid"])
def test_the_squares_are_of_this_glimpse_and_the_trail_ends_there(places):
    trace = make_trace(f"--attention.places={places}", "--attention.grid=[3, 3]", shape=(3, 20, 30))
    locations = trace.rollout.locations
    assert not torch.equal(locations[:, 1], locations[:, 2])  # else the next would do as well
    sensor = tiny_model().glimpses.sensor
    for row in range(2):
        for step in range(3):
            axes, patches, _ = strip(draw_frame([trace], row, step))
            boxes = sensor.boxes(locations[row, step], 20, 30).tolist()
            assert rectangles(axes) == [(x0, y0, x1 - x0, y1 - y0) for x0, y0, x1, y1 in boxes]
            drawn = torch.cat([torch.tensor(line.get_xydata()) for line in axes.lines])
            so_far = (locations[row, : step + 1] + 1) * torch.tensor([15.0, 10.0])
            assert_close(drawn, torch.cat([so_far, so_far[:1], so_far[-1:]]))  # the line, its start and its end
            shown = torch.tensor(axes.images[0].get_array().data)
            assert_close(shown, trace.images[row].permute(1, 2, 0) / 255)
            read = torch.tensor(patches.images[0].get_array().data)
            assert_close(read[:4, :, :3], trace.patches[row, step, 0])
            assert_close(read[-4:, :, :3], trace.patches[row, step, 1])


def test_soft_reads_show_their_footprint_or_their_weights():
    soft = make_trace("--read=soft")
    image, _, _ = strip(draw_frame([soft], 1, 2))
    ellipses = [patch for patch in image.patches if isinstance(patch, Ellipse)]
    assert [ellipse.center for ellipse in ellipses] == [tuple(soft.points[1, 2].tolist())] * 2
    assert ellipses[0].width == pytest.approx(2 * 0.1 * 15)
    grid = make_trace("--read=soft", "--attention.places=grid")
    image, _, _ = strip(draw_frame([grid], 1, 2))
    assert_close(torch.tensor(image.images[1].get_array().data), grid.rollout.attention_weights[1, 2].view(2, 3))


def test_bars_are_the_probabilities_of_this_glimpse():
    trace = with_probabilities(make_trace(), [[0.2, 0.5, 0.3], [0.1, 0.3, 0.6], [0.7, 0.296, 0.004]])
    frame = draw_frame([trace], 1, 0)  # the true class is "c"
    bars = strip(frame)[2]
    assert [bar.get_width() for bar in bars.patches] == pytest.approx([0.2, 0.5, 0.3])
    assert words(bars) == ["a", "20%", "b", "50%", "c", "30% ◂ true"]
    assert [text.get_weight() for text in bars.texts] == ["normal"] * 4 + ["bold"] * 2
    wrong, correct, rare = (strip(draw_frame([trace], 1, step))[2] for step in range(3))
    assert words(rare) == ["a", "70%", "b", "30%", "c", "◂ true"]
    assert colors(wrong) == [OTHER_BAR_COLOR, WRONG_COLOR, OTHER_BAR_COLOR]
    assert colors(correct) == [OTHER_BAR_COLOR, OTHER_BAR_COLOR, CORRECT_COLOR]
    headings = [text.get_text() for text in frame.texts]
    assert headings == [
        "model, hard attention",
        "glimpse 1 of 3",
        "image (true: c)",
        "patches",
        "predicts b, 50%: wrong",
    ]
    assert draw_frame([trace], 1, 1).texts[-1].get_text() == "predicts c, 60%: correct"


def test_of_many_classes_the_ten_most_probable():
    names = tuple(f"class number {index}" for index in range(12))
    probabilities = torch.tensor([0.0, 0.01, 0.3, 0.02, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.18])
    trace = with_probabilities(make_trace(names=names), probabilities)
    frame = draw_frame([trace], 0, 0)
    bars = strip(frame)[2]
    assert [bar.get_width() for bar in bars.patches] == pytest.approx(sorted(probabilities.tolist())[:1:-1])
    assert words(bars)[:4] == ["class number 2", "30%", "class number …", "18%"]
    assert "image (true: class number 0)" in [text.get_text() for text in frame.texts]  # which is not among the ten


def test_several_labels_are_correct_together():
    trace = make_trace(targets=[[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    frame = draw_frame([with_probabilities(trace, [0.9, 0.4, 0.7])], 0, 0)
    bars = strip(frame)[2]
    assert colors(bars) == [CORRECT_COLOR, OTHER_BAR_COLOR, CORRECT_COLOR]
    assert words(bars) == ["a", "90% ◂ true", "b", "40%", "c", "70% ◂ true"]
    assert [text.get_text() for text in frame.texts][2:] == ["image (true: a, c)", "patches", "predicts a, c: correct"]
    half = draw_frame([with_probabilities(trace, [0.9, 0.4, 0.3])], 0, 0)
    assert colors(strip(half)[2]) == [WRONG_COLOR, OTHER_BAR_COLOR, OTHER_BAR_COLOR]
    assert half.texts[-1].get_text() == "predicts a: wrong"
    assert (
        draw_frame([with_probabilities(trace, [0.1, 0.4, 0.3])], 1, 0).texts[-1].get_text() == "predicts none: correct"
    )


def test_a_model_with_fewer_glimpses_stays_at_its_last():
    long, short = make_trace(), make_trace("--num_glimpses=2", name="short")
    figure = draw_frame([long, short], 0, 2)
    assert [text.get_text() for text in figure.texts if "glimpse" in text.get_text()] == [
        "glimpse 3 of 3",
        "glimpse 2 of 2",
    ]
    assert rectangles(strip(figure, 1)[0]) == rectangles(strip(draw_frame([short], 0, 1))[0])
    pictures = list(frames([long, short], rows=[0]))
    half = pictures[0].shape[0] // 2
    assert len(pictures) == 3
    assert (pictures[1][half:] == pictures[2][half:]).all() and (pictures[0][half:] != pictures[1][half:]).any()
    assert (pictures[1][:half] != pictures[2][:half]).any()


def test_models_must_look_at_the_same_images(tmp_path):
    one = make_trace()
    other_images = make_trace(images=draw_bytes(2, 1, 20, 30, seed=5), name="other")
    other_targets = make_trace(targets=(0, 1), name="other")
    for other in (other_images, other_targets):
        for show in (
            lambda traces: draw_frame(traces, 0, 0),
            lambda traces: next(frames(traces)),
            lambda traces: save_animation(tmp_path / "a.gif", traces),
        ):
            with pytest.raises(ValueError, match="same images, but those of other and model differ"):
                show([one, other])
    with pytest.raises(ValueError, match="at least one model and one image"):
        draw_frame([], 0, 0)
    assert not list(tmp_path.iterdir())


def test_frames_are_all_images_glimpse_by_glimpse():
    trace = make_trace("--num_glimpses=2")
    pictures = list(frames([trace]))
    assert [picture.shape for picture in pictures] == [(344, 800, 3)] * 4
    assert all(picture.dtype == np.uint8 for picture in pictures)
    assert (pictures[0][[0, 0, -1, -1], [0, -1, 0, -1]] == 255).all()  # white corners
    assert all((one == other).all() for one, other in zip(pictures[2:], frames([trace], rows=[1]), strict=True))
    assert all((one != other).any() for one, other in zip(pictures, pictures[1:], strict=False))
    assert next(frames([trace, trace])).shape == (688, 800, 3)


@pytest.mark.parametrize(
    ("options", "shape", "names"),
    [
        (("--sensor.num_scales=4",), (1, 60, 20), NAMES),
        (("--read=soft",), (3, 20, 60), tuple(f"a long name of class {index}" for index in range(12))),
    ],
)
def test_no_overlap_or_clipping(options, shape, names):
    trace = make_trace(*options, shape=shape, names=names, targets=[[1.0] * len(names)] * 2, name="long name " * 9)
    figure = draw_frame([with_probabilities(trace, [1.0] * len(names))] * 2, 0, 2)
    figure.draw_without_rendering()
    texts = [*figure.texts, *strip(figure)[2].texts, *strip(figure, 1)[2].texts]
    assert figure.texts[0].get_text() == f"{'long name ' * 4}long name…, {trace.mode} attention"
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    boxes += [axes.get_window_extent() for model in range(2) for axes in strip(figure, model)[:2]]
    for box in boxes:
        assert box.x0 >= 0 and box.x1 <= 800 and box.y0 >= 0 and box.y1 <= 688
    assert not [(i, j) for i in range(len(boxes)) for j in range(i) if boxes[i].overlaps(boxes[j])]


@functools.cache
def ramp():
    """Looks at an image that has every gray."""
    grays = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).repeat(2, 1, 1, 1)
    return make_trace("--num_glimpses=2", shape=(1, 16, 16), images=grays)


def read_gif(path):
    pictures, times = [], []
    with Image.open(path) as gif:
        for index in range(gif.n_frames):
            gif.seek(index)
            pictures.append(np.asarray(gif.convert("RGB")).astype(int))
            times.append(gif.info["duration"])
        return pictures, times, gif.info.get("loop")


def test_gif_shows_each_frame_for_its_time_without_bands_or_flicker(tmp_path):
    trace = ramp()
    save_animation(tmp_path / "a.gif", [trace], seconds=0.31, hold=1.2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gif"]
    pictures, times, loop = read_gif(tmp_path / "a.gif")
    assert times == [310, 1200, 310, 1200] and loop == 0
    drawn = [picture.astype(int) for picture in frames([trace])]
    for shown, wanted in zip(pictures, drawn, strict=True):
        error = np.abs(shown - wanted).max(-1)
        gray = np.ptp(wanted, -1) == 0
        assert error[gray].max() <= 2 and error.max() <= 60  # only thin edges between colors are rounded further
        assert error.mean() < 0.2
        assert (shown[wanted.min(-1) == 255] == 255).all()  # white stays white
    for step in range(3):
        same = (drawn[step] == drawn[step + 1]).all(-1)
        assert (pictures[step][same] == pictures[step + 1][same]).all()


def test_gif_keeps_the_duration_of_equal_frames(tmp_path):
    grays = torch.zeros(2, 1, 16, 16, dtype=torch.uint8)
    trace = make_trace("--num_glimpses=1", shape=(1, 16, 16), images=grays, targets=(1, 1))
    save_animation(tmp_path / "a.gif", [trace], hold=0.7)
    pictures, times, _ = read_gif(tmp_path / "a.gif")
    assert len(pictures) == 1 and sum(times) == 1400


def test_gif_of_few_colors_is_exact(tmp_path):
    pictures = [np.full((8, 8, 3), 255, np.uint8) for _ in range(3)]
    for index, picture in enumerate(pictures):
        picture[index, index + 1] = (200, 10 * index, 0)
    video._write_gif(tmp_path / "a.gif", pictures, [50, 60, 70])
    read, times, _ = read_gif(tmp_path / "a.gif")
    assert times == [500, 600, 700]
    size = (tmp_path / "a.gif").read_bytes()[10] & 7
    assert 2 ** (size + 1) == 256  # a table of all colors, so that the one for what stays as it was exists
    assert all((one == other).all() for one, other in zip(read, pictures, strict=True))


def test_mp4_shows_each_frame_for_its_time(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)  # that of imageio_ffmpeg, whatever is installed
    trace = ramp()
    path = tmp_path / "a:b.MP4"
    save_animation(path, [trace], seconds=0.2, hold=0.5)
    assert [file.name for file in tmp_path.iterdir()] == ["a:b.MP4"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", f"file:{path}", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    ran = subprocess.run(command, capture_output=True, check=True)
    about = ran.stderr.decode().partition("Output")[0]
    for fact in ("h264", "yuv420p", "800x344", " 10 fps", "Duration: 00:00:01.40"):
        assert fact in about
    read = np.frombuffer(ran.stdout, np.uint8).reshape(-1, 344, 800, 3).astype(int)
    assert len(read) == 14
    drawn, shown = list(frames([trace])), [0] * 2 + [1] * 5 + [2] * 2 + [3] * 5
    for index, picture in enumerate(read):
        distances = [np.abs(picture - wanted).mean() for wanted in drawn]
        assert int(np.argmin(distances)) == shown[index] and min(distances) < 3


def test_invalid_files(tmp_path):
    trace = ramp()
    for name in ("a.webm", "gif"):
        with pytest.raises(ConfigError, match=rf"must be a \.gif or an \.mp4 file, got {name}"):
            save_animation(name, [trace])
    for times in ({"seconds": 0.0}, {"hold": 61}, {"seconds": float("nan")}):
        with pytest.raises(ConfigError, match=r"must be in \[0.02, 60\], got"):
            save_animation(tmp_path / "a.gif", [trace], **times)
    with pytest.raises(ConfigError, match=r"cannot write the animation .*nowhere.a\.gif: No such file or directory"):
        save_animation(tmp_path / "nowhere" / "a.gif", [trace])
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot write the animation .*a\.mp4: Not a directory"):
        save_animation(tmp_path / "file" / "a.mp4", [trace])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_without_ffmpeg(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigError, match="requires ffmpeg: install it, or `pip install imageio-ffmpeg`"):
        save_animation(tmp_path / "a.mp4", [ramp()])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("commands", "reported"), [("echo first >&2; echo the last line >&2; ", "the last line"), ("", "no error message")]
)
def test_failing_ffmpeg_keeps_the_old_file(tmp_path, monkeypatch, commands, reported):
    program, path = tmp_path / "ffmpeg", tmp_path / "a.mp4"
    program.write_text(f"#!/bin/sh\n{commands}exit 3\n")
    program.chmod(0o755)
    path.write_text("an older one")
    monkeypatch.setattr("shutil.which", lambda name: str(program))
    with pytest.raises(ConfigError, match=f"ffmpeg failed: {reported}$"):
        save_animation(path, [ramp()])
    assert path.read_text() == "an older one"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.mp4", "ffmpeg"]


@pytest.mark.parametrize("suffix", ["gif", "mp4"])
def test_interrupted_writing_keeps_the_old_file(tmp_path, monkeypatch, suffix):
    def interrupted(traces):
        yield next(frames(traces))
        raise KeyboardInterrupt

    path = tmp_path / f"a.{suffix}"
    path.write_text("an older one")
    monkeypatch.setattr("glimpse.view.glimpse_animation.frames", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_animation(path, [ramp()])
    assert path.read_text() == "an older one"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
