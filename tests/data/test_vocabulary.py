"""Tokenization against literal examples, and conversion of tokens to ids and back."""

import pytest
import torch

from glimpse.data.vocabulary import END, PAD, SPECIAL, START, UNKNOWN, Vocabulary, tokenize_ptb


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A man, riding a horse.", "a man riding a horse"),
        ("Two dogs don't run; they WALK!", "two dogs do n't run they walk"),
        ("It's a boy's kite, isn't it?", "it 's a boy 's kite is n't it"),
        (
            "I'm sure they're where we've been, he'd say she'll",
            "i 'm sure they 're where we 've been he 'd say she 'll",
        ),
        ("can't won't cannot gonna", "ca n't wo n't can not gon na"),
        ("the players' bats", "the players bats"),
        ("It\u2019s a \u201cred\u201d t-shirt", "it 's a red t-shirt"),
        ('a "stop" sign (red) {old}', "a stop sign red old"),
        ("3,000 people at 5:30 ate 2.5 or 1/2 cakes, 20.", "3,000 people at 5:30 ate 2.5 or 1/2 cakes 20"),
        ("a black-and-white photo - blurry -- of cats...", "a black-and-white photo blurry of cats"),
        ("the U.S. flag near Mr. Smith at 7 o'clock", "the u.s. flag near mr. smith at 7 o'clock"),
        ("50% of $5 & more", "50 % of $ 5 & more"),
        ("the end.A start", "the end a start"),
        ("''`` ' ` . ? ! , : - -- ... ;", ""),
        ("  \n\t ", ""),
        ("Caf\u00e9 \u00c9clair", "caf\u00e9 \u00e9clair"),
        ("a -LRB- b -RRB- c -lcb- d -rcb- e", "a b c d e"),
        ("the last word is st.", "the last word is st."),
        ("the first.", "the first"),
    ],
)
def test_tokenize_ptb(text, words):
    assert tokenize_ptb(text) == tuple(words.split())


def test_tokenization_is_idempotent():
    words = tokenize_ptb("The cat's 3,000 t-shirts can't be at 5:30 in the U.S. & 20% of 1/2")
    assert "'s" in words and "n't" in words and tokenize_ptb(" ".join(words)) == words


CAPTIONS = [("b", "a", "c"), ("c", "a"), ("c",), ("d",)]


def test_words_are_ordered_by_count_then_alphabet():
    assert Vocabulary.of(CAPTIONS).words == ("c", "a", "b", "d")
    assert Vocabulary.of(iter(CAPTIONS), min_count=2).words == ("c", "a")
    assert len(Vocabulary.of(CAPTIONS)) == 8
    assert (PAD, START, END, UNKNOWN) == (0, 1, 2, 3) and SPECIAL[UNKNOWN] == "<unknown>"


def test_encode_is_literal():
    ids, lengths = Vocabulary(("c", "a", "b")).encode([("a", "b", "x"), (), ("c",)])
    assert ids.dtype == lengths.dtype == torch.int64
    assert ids.tolist() == [[1, 5, 6, 3, 2], [1, 2, 0, 0, 0], [1, 4, 2, 0, 0]]
    assert lengths.tolist() == [4, 1, 2]


def test_no_captions():
    ids, lengths = Vocabulary(("c",)).encode([])
    assert ids.shape == (0, 2) and lengths.shape == (0,) and ids.dtype == lengths.dtype == torch.int64


def test_round_trips():
    vocabulary = Vocabulary.of(CAPTIONS)
    ids, lengths = vocabulary.encode(CAPTIONS)
    assert [vocabulary.decode(row) for row in ids] == CAPTIONS
    assert [vocabulary.decode(row) for row in ids.tolist()] == CAPTIONS
    assert [(row == END).nonzero().item() for row in ids] == lengths.tolist()
    assert Vocabulary(vocabulary.words).encode(CAPTIONS)[0].equal(ids)


def test_decode_stops_at_the_end():
    vocabulary = Vocabulary(("c", "a"))
    assert vocabulary.decode([1, 5, 0, 3, 4, 2, 5, 99]) == ("a", "<unknown>", "c")
    assert vocabulary.decode([5, 4]) == ("a", "c")
    assert vocabulary.decode([]) == ()


@pytest.mark.parametrize("token_id", [-1, 6])
def test_invalid_ids(token_id):
    with pytest.raises(ValueError, match=rf"ids must be in 0\.\.5, got {token_id}"):
        Vocabulary(("c", "a")).decode([4, token_id])


def test_invalid_vocabularies():
    with pytest.raises(ValueError, match="got duplicates: a, b"):
        Vocabulary(("b", "a", "c", "a", "b"))
    with pytest.raises(ValueError, match="must not be one of <pad>, .* got <end>"):
        Vocabulary(("a", "<end>"))
    with pytest.raises(ValueError, match="min_count must be at least 1, got 0"):
        Vocabulary.of(CAPTIONS, min_count=0)
