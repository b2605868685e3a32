"""Measure the speed of training captioners and of decoding captions, as ratios within one run.

python benchmarks/captions.py     training with cached annotations and with encoding the images each time; greedy
                                  decoding and beam search, in batches and one image at a time

The decoder has the size of one for Flickr8k, and random weights. The run takes about five minutes. On a busy machine,
use one thread (OMP_NUM_THREADS=1).

Shapes: B batch, L places, A annotation size.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple, get_args

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent))
from timing import side_by_side

from glimpse.attention.annotation import Annotations, Attention
from glimpse.attention.settings import ReadMode
from glimpse.data.vocabulary import END, SPECIAL, START
from glimpse.losses.sequences import caption_cross_entropy
from glimpse.models.backbones import BackboneEncoder
from glimpse.models.decoder import Decoder
from glimpse.models.decoding import Hypothesis, beam, greedy
from glimpse.models.encoder_decoder import Captioner

BATCH, BEAM_WIDTH, MAX_LENGTH = 64, 5, 20
BACKBONE, SIDE = "mobilenet_v2", 288  # 9 x 9 annotations for an image of 288 x 288
LENGTH = 12  # words of a training caption, without END


class Sizes(NamedTuple):
    """Sizes of a decoder and its annotations."""

    places: int
    annotation: int
    embed: int
    state: int
    scores: int
    words: int


DIGITS, PHOTOS = Sizes(49, 128, 128, 256, 128, 47), Sizes(81, 1280, 512, 512, 512, 2600)


def make_decoder(sizes: Sizes, mode: ReadMode = "soft") -> Decoder:
    """Make a decoder with fixed random weights."""
    torch.manual_seed(0)
    return Decoder(
        attention=Attention(state_dim=sizes.state, annotation_dim=sizes.annotation, mode=mode, dim=sizes.scores),
        vocabulary_size=sizes.words,
        embed_dim=sizes.embed,
        state_dim=sizes.state,
        annotation_dim=sizes.annotation,
    )


@torch.no_grad()
def end_after_ten_words(decoder: Decoder) -> Decoder:
    """Make a decoder write about ten words, as a trained one would; with random weights the best caption is empty.

    Scaling the output weights makes a few words likely, the most likely one with a probability of about one half. END
    depends on a counter: the first unit of the LSTM counts the words and is the only input of the first component of
    the output, which sets the logit of END.
    """
    decoder.to_words.weight *= 8
    state = decoder.cell.hidden_size
    biases = (20, 20, 0.05, 20)  # input gate, forget gate, increment, output gate
    for unit, bias in zip(range(0, 4 * state, state), biases, strict=True):
        for weights in (decoder.cell.weight_ih, decoder.cell.weight_hh, decoder.cell.bias_hh):
            weights[unit] = 0
        decoder.cell.bias_ih[unit] = bias
    layers = (decoder.initial_cell[0], decoder.from_hidden)
    for weights in (*(part for layer in layers for part in (layer.weight, layer.bias)), decoder.from_context.weight):
        weights[0] = 0
    decoder.embed.weight[:, 0] = 0
    decoder.from_hidden.weight[0, 0] = 1
    decoder.to_words.weight[END, 0] = 40
    decoder.to_words.bias[END] = -10
    return decoder.eval()


def random_annotations(sizes: Sizes) -> Tensor:
    """Draw annotations (B, L, A) that are more alike within an image than between images, so that captions differ."""
    places, size = sizes[:2]
    return (torch.randn(BATCH, 1, size) + torch.randn(BATCH, places, size)).relu()


def training() -> None:
    """Measure soft training steps, without loading the data."""
    decoder = make_decoder(PHOTOS)
    model = Captioner(encoder=BackboneEncoder(name=BACKBONE), decoder=decoder)
    optimizer = torch.optim.Adam(decoder.parameters())
    words = torch.randint(len(SPECIAL), PHOTOS.words, (BATCH, LENGTH + 2))
    words[:, 0], words[:, -1] = START, END
    lengths = torch.full((BATCH,), LENGTH + 1)

    def train_step(images: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        caption_cross_entropy(model(images, words).logits, words[:, 1:], lengths).backward()
        optimizer.step()

    cached, images = random_annotations(PHOTOS), torch.rand(BATCH, 3, SIDE, SIDE)
    assert model.encoder(images[:1]).shape[1:] == cached.shape[1:]
    times = side_by_side(
        {"annotations cached": lambda: train_step(cached), "encoded each time": lambda: train_step(images)}
    )
    print(f"Training with {BATCH} captions of {LENGTH} words of photographs, annotations by {BACKBONE}, frozen:\n")
    table(times, "encoded each time")


def decoding(what: str, sizes: Sizes, mode: ReadMode) -> None:
    """Measure the decoding of captions from the same annotations, in a batch and one at a time."""
    decoder = end_after_ten_words(make_decoder(sizes, mode))
    with torch.no_grad():
        batch = decoder.attention.annotate(random_annotations(sizes))
    single = [Annotations(values[None], keys[None], None) for values, keys in zip(*batch[:2], strict=True)]

    def by_beam(memory: Annotations) -> list[Hypothesis]:
        return beam(decoder, memory, beam_width=BEAM_WIDTH, max_length=MAX_LENGTH)

    def greedily(memory: Annotations) -> list[Hypothesis]:
        return greedy(decoder, memory, max_length=MAX_LENGTH)

    captions = [caption.words for caption in by_beam(batch)]
    same = sum(words == by_beam(memory)[0].words for words, memory in zip(captions, single, strict=True))
    counts = sorted(map(len, captions))
    times = side_by_side(
        {
            f"beam, {BATCH} at a time": lambda: by_beam(batch),
            "beam, one at a time": lambda: [by_beam(memory) for memory in single],
            f"greedy, {BATCH} at a time": lambda: greedily(batch),
            "greedy, one at a time": lambda: [greedily(memory) for memory in single],
        }
    )
    print(
        f"\nCaptions of {BATCH} {what}, {mode}, beam width {BEAM_WIDTH}, {counts[0]} to {counts[-1]} words, "
        f"{sum(counts) / BATCH:.1f} on average; {same} of {BATCH} equal to those of single images:\n"
    )
    table(times, "beam, one at a time")


def table(times: dict[str, float], unit: str) -> None:
    """Print captions per second, from the seconds for B of them, and the speed relative to alternative `unit`."""
    print(f"{'':24}{'captions/s':>12}{'speed':>8}")
    for name, seconds in times.items():
        print(f"{name:24}{BATCH / seconds:12,.1f}{times[unit] / seconds:8.2f}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.manual_seed(0)
    print(f"{torch.get_num_threads()} threads\n")
    training()
    for what, sizes in (("images of digits", DIGITS), ("photographs", PHOTOS)):
        for mode in get_args(ReadMode):
            decoding(what, sizes, mode)
