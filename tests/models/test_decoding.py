"""The searches against exhaustive search, against teacher forcing, and against each other."""

import itertools
import math

import pytest
import torch
from support.tensors import assert_close, draw

from glimpse.attention.annotation import Annotations, Attention
from glimpse.attention.distributions import Categorical, Noise
from glimpse.attention.reading import read
from glimpse.data.vocabulary import END, PAD, START, UNKNOWN
from glimpse.models.decoder import Decoder, DecoderState, DecoderStep
from glimpse.models.decoding import beam, greedy, sample

BATCH, PLACES, SIZE, STATE = 6, 5, 4, 6


def make_decoder(*, words=8, mode="soft", seed=2, sharpness=2.0, **options):
    """A decoder in evaluation mode whose weights are large enough for different sentences for different images."""
    torch.manual_seed(seed)
    attention = Attention(state_dim=STATE, annotation_dim=SIZE, mode=mode, dim=3)
    sizes = {"vocabulary_size": words, "embed_dim": 5, "state_dim": STATE, "annotation_dim": SIZE}
    decoder = Decoder(attention=attention, **sizes, **options).double().eval()
    with torch.no_grad():
        decoder.to_words.weight *= sharpness
        decoder.attention.scorer.score.weight *= sharpness
        for weight in (decoder.from_context.weight, decoder.from_hidden.weight, decoder.cell.weight_ih):
            weight *= 4
        decoder.initial_hidden[0].weight *= 4
    return decoder


def some_values(batch=BATCH, seed=0):
    return draw(batch, PLACES, SIZE, seed=seed, dtype=torch.float64) * 4 - 2


def some_memory(decoder, **options):
    return decoder.attention.annotate(some_values(**options))


def boost(decoder, word, by=1e3):
    """Make a decoder generate a word always, or with a negative number never."""
    with torch.no_grad():
        decoder.to_words.bias[word] += by
    return decoder


def teacher_forced(decoder, memory, image, words, mode=None):
    """The log-probability of words under teacher forcing, and the decoder output."""
    one = Annotations(*(None if part is None else part[image : image + 1] for part in memory))
    with torch.no_grad():
        output = decoder(one, torch.tensor([[START, *words]]), mode=mode, sample=False)
    log_probs = output.logits.log_softmax(-1)[0]
    return sum(log_probs[t, word].item() for t, word in enumerate(words)), output


def exhaustive(decoder, memory, image, max_length, length_penalty):
    """The best of all sentences that end, as (score, words with END)."""
    others = [word for word in range(decoder.to_words.out_features) if word not in (PAD, START, UNKNOWN, END)]
    best = (-math.inf, None)
    for length in range(max_length):
        for words in itertools.product(others, repeat=length):
            log_prob, _ = teacher_forced(decoder, memory, image, (*words, END))
            score = log_prob / ((5 + length + 1) / 6) ** length_penalty
            best = max(best, (score, (*words, END)))
    return best


def assert_same_hypotheses(one, other, atol=1e-10):
    assert [caption.words for caption in one] == [caption.words for caption in other]
    for a, b in zip(one, other, strict=True):
        assert abs(a.log_prob - b.log_prob) <= atol
        assert_close(a.weights, b.weights, atol)
        assert torch.equal(a.places, b.places)


SEARCHES = {
    "greedy": greedy,
    "sample": lambda *args, **options: sample(*args, noise=Noise(0), **options),
    "beam": lambda *args, **options: beam(*args, beam_width=3, **options),
}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


@pytest.mark.parametrize("length_penalty", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_wide_enough_is_exhaustive_search(seed, length_penalty):
    decoder = make_decoder(words=6, seed=seed)
    memory = some_memory(decoder, batch=2, seed=seed)
    captions = beam(decoder, memory, beam_width=6**3, max_length=3, length_penalty=length_penalty)
    for image, caption in enumerate(captions):
        score, words = exhaustive(decoder, memory, image, 3, length_penalty)
        assert (*caption.words, END) == words
        assert abs(caption.log_prob / ((5 + len(words)) / 6) ** length_penalty - score) < 1e-10


def test_the_length_penalty_favors_long_sentences():
    decoder = make_decoder(words=6)
    lengths = [
        sum(
            len(c.words)
            for c in beam(decoder, some_memory(decoder), beam_width=216, max_length=3, length_penalty=penalty)
        )
        for penalty in (0.0, 3.0)
    ]
    assert lengths[0] < lengths[1]


@pytest.mark.parametrize("length_penalty", [0.0, 2.0])
def test_images_do_not_disturb_each_other(length_penalty):
    decoder = make_decoder()
    options = {"beam_width": 3, "max_length": 6, "length_penalty": length_penalty}
    together = beam(decoder, some_memory(decoder), **options)
    assert len({caption.words for caption in together}) > 1
    alone = [beam(decoder, decoder.attention.annotate(values[None]), **options)[0] for values in some_values()]
    assert_same_hypotheses(together, alone)


@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_of_one_is_greedy(seed, mode):
    decoder = make_decoder(seed=seed)
    memory = some_memory(decoder, seed=seed)
    expected = greedy(decoder, memory, max_length=6, mode=mode)
    for length_penalty in (0.0, 2.0):
        assert_same_hypotheses(
            beam(decoder, memory, beam_width=1, max_length=6, length_penalty=length_penalty, mode=mode), expected
        )


def beam_by_hand(decoder, memory, image, width, max_length, length_penalty):
    """Beam search of one image with lists, every hypothesis decoded anew."""
    opened, done, room = [(0.0, ())], [], width
    for length in range(1, max_length + 1):
        candidates = []
        for log_prob, words in opened:
            _, output = teacher_forced(decoder, memory, image, (*words, END))
            for word, more in enumerate(output.logits[0, -1].log_softmax(-1).tolist()):
                if word not in (PAD, START, UNKNOWN):
                    candidates.append((log_prob + more, (*words, word)))
        chosen = sorted(candidates, reverse=True)[:room]
        done += [(p / ((5 + length) / 6) ** length_penalty, words) for p, words in chosen if words[-1] == END]
        opened = [(p, words) for p, words in chosen if words[-1] != END]
        room = width - len(done)
    return max(done)[1] if done else max(opened)[1]


@pytest.mark.parametrize("width", [2, 3, 5])
@pytest.mark.parametrize("length_penalty", [0.0, 1.5])
def test_a_beam_by_hand(width, length_penalty):
    """Without stopping early, which therefore changes nothing."""
    decoder = make_decoder()
    memory = some_memory(decoder)
    captions = beam(decoder, memory, beam_width=width, max_length=5, length_penalty=length_penalty)
    for image, caption in enumerate(captions):
        expected = beam_by_hand(decoder, memory, image, width, 5, length_penalty)
        assert caption.words == tuple(word for word in expected if word != END)


class Scripted:
    """A decoder whose next word depends on the last one by a table, and which attends to the place of its index."""

    def __init__(self, table, words=8):
        self.table = torch.zeros(words, words, dtype=torch.float64)
        self.table[[word for word in range(words) if word not in table], PAD] = 1
        for word, then in table.items():
            for other, probability in then.items():
                self.table[word, other] = probability

    def initial_state(self, annotations):
        zeros = annotations.values.new_zeros(len(annotations.values), 1)
        return DecoderState(zeros, zeros)

    def step(self, word, state, annotations, **options):
        attention = Categorical.one_hot(word, len(self.table), torch.float64)
        reading = read(attention, annotations, "soft")
        return DecoderStep(self.table[word].log(), state, reading, reading.context, reading.context)

    def memory(self, batch=1):
        values = torch.zeros(batch, len(self.table), 1, dtype=torch.float64)
        return Annotations(values, values, None)


def test_a_beam_finds_better_sentences_than_greedy():
    decoder = Scripted(
        {START: {7: 0.6, 4: 0.4}, 7: {6: 0.4, 5: 0.3, END: 0.3}, 4: {5: 1.0}, 5: {END: 1.0}, 6: {END: 1}}
    )
    for width, words, probability in ((1, (7, 6), 0.24), (2, (4, 5), 0.4)):
        for caption in beam(decoder, decoder.memory(3), beam_width=width, max_length=5):
            assert caption.words == words
            assert abs(caption.log_prob - math.log(probability)) < 1e-12
            # Each word was generated while reading at the place of the word before it.
            assert caption.places.tolist() == [START, words[0]]
            assert caption.weights.argmax(1).tolist() == [START, words[0]]


@pytest.mark.parametrize("length_penalty, words", [(0.0, ()), (3.0, (8, 4, 5, 6))])
def test_what_is_unlikely_now_may_score_better_later(length_penalty, words):
    """By 0.35 / (10 / 6) ** 3 for a sentence of four words and END, in logarithms, against 0.4 for none."""
    decoder = Scripted(
        {START: {END: 0.4, 8: 0.35, 7: 0.25}, 8: {4: 1}, 4: {5: 1}, 5: {6: 1}, 6: {END: 1}, 7: {7: 1}}, words=9
    )
    (caption,) = beam(decoder, decoder.memory(), beam_width=2, max_length=5, length_penalty=length_penalty)
    assert caption.words == words
    assert abs(caption.log_prob - math.log(0.35 if words else 0.4)) < 1e-12


def test_a_beam_stops_when_nothing_better_can_come():
    decoder, calls = boost(make_decoder(), END), []
    step = decoder.step
    decoder.step = lambda *args, **options: calls.append(1) or step(*args, **options)
    beam(decoder, some_memory(decoder), beam_width=3, max_length=9)
    assert len(calls) == 1


@every_search
@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_log_probabilities_and_attention_equal_teacher_forcing(search, mode):
    decoder = make_decoder()
    memory = some_memory(decoder)
    lengths = set()
    for image, caption in enumerate(search(decoder, memory, max_length=5, mode=mode)):
        if mode == "hard" and search is SEARCHES["sample"]:
            continue  # reads at other places
        length = len(caption.words)
        lengths.add(length)
        log_prob, output = teacher_forced(decoder, memory, image, (*caption.words, *[END] * (length < 5)), mode=mode)
        assert abs(caption.log_prob - log_prob) < 1e-10
        assert_close(caption.weights, output.weights[0, :length], 1e-10)
        assert torch.equal(caption.places, output.places[0, :length])
        assert torch.equal(caption.places, caption.weights.argmax(-1))
    assert len(lengths) != 1  # it was no test of one length


@every_search
def test_padding_changes_nothing(search):
    decoder, values = make_decoder(), some_values()
    junk = torch.full((BATCH, 2, SIZE), 50.0, dtype=torch.float64)
    mask = torch.arange(PLACES + 2).expand(BATCH, -1) < PLACES
    padded = decoder.attention.annotate(torch.cat([values, junk], 1), mask)
    expected = search(decoder, decoder.attention.annotate(values), max_length=6)
    captions = search(decoder, padded, max_length=6)
    assert not any(caption.weights[:, PLACES:].any() for caption in captions)
    assert_same_hypotheses([caption._replace(weights=caption.weights[:, :PLACES]) for caption in captions], expected)


@every_search
def test_a_decoder_that_never_ends(search):
    decoder = boost(make_decoder(), END, -math.inf)
    memory = some_memory(decoder)
    for image, caption in enumerate(search(decoder, memory, max_length=4)):
        assert len(caption.words) == 4 and caption.weights.shape == (4, PLACES) and caption.places.shape == (4,)
        assert abs(caption.log_prob - teacher_forced(decoder, memory, image, caption.words)[0]) < 1e-10


def test_the_best_of_unfinished_sentences():
    decoder = boost(make_decoder(words=6), END, -math.inf)
    memory = some_memory(decoder)
    for image, caption in enumerate(beam(decoder, memory, beam_width=8, max_length=3)):
        best = max(
            itertools.product((4, 5), repeat=3), key=lambda words: teacher_forced(decoder, memory, image, words)[0]
        )
        assert caption.words == best


@every_search
def test_a_decoder_that_ends_at_once(search):
    decoder = boost(make_decoder(), END)
    for caption in search(decoder, some_memory(decoder), max_length=4):
        assert caption.words == () and caption.weights.shape == (0, PLACES) and caption.places.shape == (0,)
        assert -1e-10 < caption.log_prob <= 0


@every_search
@pytest.mark.parametrize("word", [PAD, START, UNKNOWN])
def test_special_words_are_never_generated(search, word):
    decoder = boost(make_decoder(), word, 100.0)
    captions = search(decoder, some_memory(decoder), max_length=4)
    assert not any(word in caption.words for caption in captions)
    assert all(caption.log_prob < -50 for caption in captions)  # nor do the others become more likely for it


def test_equally_likely_words():
    decoder = make_decoder(words=40)
    torch.nn.init.zeros_(decoder.to_words.weight)
    torch.nn.init.zeros_(decoder.to_words.bias)
    memory = some_memory(decoder)
    assert {caption.words for caption in greedy(decoder, memory, max_length=3)} == {()}
    assert {caption.words for caption in beam(decoder, memory, beam_width=3, max_length=3)} == {()}
    boost(decoder, END, -math.inf)
    assert {caption.words for caption in greedy(decoder, memory, max_length=3)} == {(4, 4, 4)}
    assert {caption.words for caption in beam(decoder, memory, beam_width=3, max_length=3)} == {(4, 4, 4)}


def test_samples_follow_the_decoder():
    decoder = make_decoder(words=6, mode="hard", sharpness=1.0)
    memory = decoder.attention.annotate(some_values(batch=1).expand(4000, -1, -1))
    captions = sample(decoder, memory, max_length=2, noise=Noise(0))
    one = decoder.attention.annotate(some_values(batch=1))
    with torch.no_grad():
        attention = decoder.attention.where(decoder.initial_state(one).hidden, one).weights[0]
        by_place = []
        for place in range(PLACES):
            reading = Annotations(one.values[:, place : place + 1], one.keys[:, place : place + 1], None)
            step = decoder.step(torch.tensor([START]), decoder.initial_state(one), reading, mode="hard")
            word = step.logits.softmax(-1)[0]
            word[[PAD, START, UNKNOWN]] = 0
            by_place.append(word / word.sum())
    expected = attention @ torch.stack(by_place)
    first = torch.tensor([caption.words[0] if caption.words else END for caption in captions])
    assert_close(torch.bincount(first, minlength=5) / 4000, expected, 0.025)
    places = torch.stack([caption.places[0] for caption in captions if caption.words])
    assert_close(
        torch.bincount(places, minlength=PLACES) / 4000, attention * (1 - torch.stack(by_place)[:, END]), 0.025
    )


def test_samples_depend_on_their_noise_alone():
    decoder = make_decoder(mode="hard", sharpness=1.0)
    memory = some_memory(decoder)
    one, again, other = (sample(decoder, memory, max_length=6, noise=Noise(seed)) for seed in (0, 0, 1))
    assert_same_hypotheses(one, again, 0)
    assert [caption.words for caption in one] != [caption.words for caption in other]


@every_search
def test_no_gradients(search):
    decoder = make_decoder()
    assert not any(caption.weights.requires_grad for caption in search(decoder, some_memory(decoder), max_length=3))


@every_search
def test_empty_batch(search):
    decoder = make_decoder()
    assert search(decoder, some_memory(decoder).rows(torch.zeros(0, dtype=torch.int64)), max_length=3) == []


@every_search
def test_max_length_of_zero(search):
    decoder = make_decoder()
    with pytest.raises(ValueError, match="max_length must be at least 1, got 0"):
        search(decoder, some_memory(decoder), max_length=0)


def test_impossible_beams():
    decoder = make_decoder()
    memory = some_memory(decoder)
    with pytest.raises(ValueError, match="beam_width must be at least 1, got 0"):
        beam(decoder, memory, beam_width=0, max_length=3)
    for length_penalty in (-0.1, math.nan):
        with pytest.raises(ValueError, match=f"length_penalty must be at least 0, got {length_penalty}"):
            beam(decoder, memory, beam_width=2, max_length=3, length_penalty=length_penalty)
