"""How fast captions are learnt from, and how fast they are found, as ratios measured in one run.

python benchmarks/captions.py     training with annotations that were kept against encoding the images each time; greedy
                                  and beam search of a batch against one image at a time

The decoder has the size of one for Flickr8k, and random weights. It takes about five minutes; to compare beside other
work, give it one thread (OMP_NUM_THREADS=1).

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

BATCH, WIDTH, MAX_LENGTH = 64, 5, 20
BACKBONE, SIDE = "mobilenet_v2", 288  # makes 9 x 9 annotations of an image of 288 x 288
LENGTH = 12  # words of a caption to learn from, END not counted


class Sizes(NamedTuple):
    """Of a decoder and its annotations."""

    places: int
    annotation: int
    embed: int
    state: int
    scores: int
    words: int


DIGITS, PHOTOS = Sizes(49, 128, 128, 256, 128, 47), Sizes(81, 1280, 512, 512, 512, 2600)


def make_decoder(sizes: Sizes, mode: ReadMode = "soft") -> Decoder:
    """A decoder with random weights, always the same."""
    torch.manual_seed(0)
    return Decoder(
        attention=Attention(state_dim=sizes.state, annotation_dim=sizes.annotation, mode=mode, dim=sizes.scores),
        vocabulary_size=sizes.words,
        embed_dim=sizes.embed,
        state_dim=sizes.state,
        annotation_dim=sizes.annotation,
    )


@torch.no_grad()
def let_it_end(decoder: Decoder) -> Decoder:
    """Make a decoder say some ten words, as one does that has learnt; of random weights the best sentence is empty.

    Of the words a few become likely, the best of them about one half. END is left to a clock: the first unit of the
    LSTM counts the words, and END hears of it through the first component of the output, which is kept free for it.
    """
    decoder.to_words.weight *= 8
    state = decoder.cell.hidden_size
    for unit, bias in zip(range(0, 4 * state, state), (20, 20, 0.05, 20), strict=True):  # enters, stays, tick, shows
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


def some_annotations(sizes: Sizes) -> Tensor:
    """Annotations (B, L, A) that have more in common within an image than between images, so that captions differ."""
    places, size = sizes[:2]
    return (torch.randn(BATCH, 1, size) + torch.randn(BATCH, places, size)).relu()


def training() -> None:
    """Training steps, soft, everything included but the reading of the data."""
    decoder = make_decoder(PHOTOS)
    model = Captioner(encoder=BackboneEncoder(name=BACKBONE), decoder=decoder)
    optimizer = torch.optim.Adam(decoder.parameters())
    words = torch.randint(len(SPECIAL), PHOTOS.words, (BATCH, LENGTH + 2))
    words[:, 0], words[:, -1] = START, END
    lengths = torch.full((BATCH,), LENGTH + 1)

    def learn(images: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        caption_cross_entropy(model(images, words).logits, words[:, 1:], lengths).backward()
        optimizer.step()

    kept, images = some_annotations(PHOTOS), torch.rand(BATCH, 3, SIDE, SIDE)
    assert model.encoder(images[:1]).shape[1:] == kept.shape[1:]
    times = side_by_side({"annotations kept": lambda: learn(kept), "encoded each time": lambda: learn(images)})
    print(f"Training with {BATCH} captions of {LENGTH} words of photographs, annotations by {BACKBONE}, frozen:\n")
    table(times, "encoded each time")


def searching(what: str, sizes: Sizes, mode: ReadMode) -> None:
    """Captions of the same images, whose annotations are ready, searched for together and one at a time."""
    decoder = let_it_end(make_decoder(sizes, mode))
    with torch.no_grad():
        together = decoder.attention.annotate(some_annotations(sizes))
    alone = [Annotations(values[None], keys[None], None) for values, keys in zip(*together[:2], strict=True)]

    def by_beam(memory: Annotations) -> list[Hypothesis]:
        return beam(decoder, memory, beam_width=WIDTH, max_length=MAX_LENGTH)

    def by_greed(memory: Annotations) -> list[Hypothesis]:
        return greedy(decoder, memory, max_length=MAX_LENGTH)

    said = [caption.words for caption in by_beam(together)]
    same = sum(words == by_beam(one)[0].words for words, one in zip(said, alone, strict=True))
    counts = sorted(map(len, said))
    times = side_by_side(
        {
            f"beam, {BATCH} at a time": lambda: by_beam(together),
            "beam, one at a time": lambda: [by_beam(one) for one in alone],
            f"greedy, {BATCH} at a time": lambda: by_greed(together),
            "greedy, one at a time": lambda: [by_greed(one) for one in alone],
        }
    )
    print(
        f"\nCaptions of {BATCH} {what}, {mode}, beam width {WIDTH}, {counts[0]} to {counts[-1]} words, "
        f"{sum(counts) / BATCH:.1f} on average; {same} of {BATCH} the same in a batch and alone:\n"
    )
    table(times, "beam, one at a time")


def table(times: dict[str, float], unit: str) -> None:
    """Print captions a second, of B in the seconds given, and relative to one of the ways."""
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
            searching(what, sizes, mode)
