"""Parallel text files: pairs, splits by hash, and error messages of invalid files."""

import random

import pytest

from glimpse.data.parallel_text import parallel_files, tab_separated, tokenize_raw
from glimpse.data.sentence_pairs import SentencePair
from glimpse.errors import DataError

LINES = {
    "train": (["a man walks .", "two dogs", "a  dog\tand a man"], ["ein mann geht .", "zwei hunde", "ein hund und"]),
    "val": (["a dog walks ."], ["ein hund geht ."]),
    "test_2016_flickr": (["two men", "Men walk"], ["zwei männer", "Männer gehen"]),
}
NAMES = ("train", "val", "test_2016_flickr")


def make_files(root, lines=LINES, end="\n"):
    root.mkdir(exist_ok=True)
    for name, both in lines.items():
        for language, texts in zip(("en", "de"), both, strict=True):
            (root / f"{name}.lc.norm.tok.{language}").write_text("".join(text + end for text in texts), newline="")
    return root


def read(root, **settings):
    train, valid, test = (f"{name}.lc.norm.tok" for name in NAMES)
    options = {"train_file": train, "valid_file": valid, "test_file": test}
    return parallel_files(**{**options, "source_language": "en", "target_language": "de", **settings}, root=root)


def file_of(root, name, language):
    return root / f"{name}.lc.norm.tok.{language}"


# Two files for each split


def test_pairs_are_literal(tmp_path):
    splits = read(make_files(tmp_path))
    assert splits.train.pairs == [
        SentencePair(("a", "man", "walks", "."), (("ein", "mann", "geht", "."),)),
        SentencePair(("two", "dogs"), (("zwei", "hunde"),)),
        SentencePair(("a", "dog", "and", "a", "man"), (("ein", "hund", "und"),)),
    ]
    assert splits.test.pairs[1] == SentencePair(("Men", "walk"), (("Männer", "gehen"),), ())  # case is kept
    assert [len(split) for split in splits] == [3, 1, 2]
    assert [split.split for split in splits] == ["train", "valid", "test"]
    assert (
        splits.valid.tokenizer.split(" a  b. ") == ("a", "b.")
        and splits.valid.tokenizer.detokenize(("a", ".")) == "a ."
    )


def test_the_other_direction(tmp_path):
    splits = read(make_files(tmp_path), source_language="de", target_language="en")
    assert splits.train.pairs[1] == SentencePair(("zwei", "hunde"), (("two", "dogs"),))


def test_line_ends_and_byte_order_mark(tmp_path):
    expected = [split.pairs for split in read(make_files(tmp_path / "unix"))]
    assert [split.pairs for split in read(make_files(tmp_path / "windows", end="\r\n"))] == expected
    file = file_of(tmp_path / "unix", "val", "en")
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().removesuffix(b"\n"))
    assert [split.pairs for split in read(tmp_path / "unix")] == expected
    text = "a line\u2028and\x85more"  # Unicode line separators do not end a line
    make_files(tmp_path / "odd", {**LINES, "val": ([text], ["eine zeile"])})
    assert read(tmp_path / "odd").valid.pairs[0].source == ("a", "line", "and", "more")


def test_epochs(tmp_path):
    texts = [" ".join("word" for _ in range(1 + number % 7)) + f" {number}" for number in range(200)]
    data = read(make_files(tmp_path, {**LINES, "train": (texts, texts)})).train
    first, again, other = (list(data.epoch(seed=1, epoch=epoch, batch_size=8)) for epoch in (0, 0, 1))
    assert first == again and first != other and len(first) == 25
    assert sorted(pair for batch in first for pair in batch.pairs) == sorted(data.pairs)
    assert all(batch.width == max(len(pair.source) for pair in batch.pairs) for batch in first)
    assert sum(len({len(pair.source) for pair in batch.pairs}) for batch in first) < 2 * 25
    shares = [list(data.epoch(seed=1, epoch=0, batch_size=8, rank=rank, world_size=2)) for rank in range(2)]
    for batch, one, two in zip(first, *shares, strict=True):
        assert one.pairs + two.pairs == batch.pairs and one.width == two.width == batch.width
    assert [pair for batch in data.in_order(batch_size=30, limit=50) for pair in batch.pairs] == data.pairs[:50]
    assert list(data.vocabulary_pairs()) == data.pairs


def test_vocabulary_is_built_from_the_training_split_only(tmp_path):
    with pytest.raises(ValueError, match='the vocabulary must be built from the "train" split, got "valid"'):
        read(make_files(tmp_path)).valid.vocabulary_pairs()


@pytest.mark.parametrize(
    ("name", "language", "content", "message"),
    [
        ("train", "de", None, "cannot read {file}: No such file or directory"),
        ("val", "en", b"a dog\xff walks .\n", "{file}, line 1, must be UTF-8, got invalid bytes: invalid start byte"),
        ("train", "en", b"a\nb\n\xc3\n", "{file}, line 3, must be UTF-8, got invalid bytes: unexpected end of data"),
        ("train", "en", b"a\n\nc\n", "{file}, line 2, must have words, got ''"),
        ("train", "de", b"a\nb\n \t\n", "{file}, line 3, must have words, got ' \\\\t'"),
        ("train", "en", b"a\nb\n", "{file} and .*train.lc.norm.tok.de must have the same number of lines, got 2 and 3"),
        ("val", "en", b"a <end> b\n", "{file}, line 1, must not contain the special token <end>"),
    ],
)
def test_invalid_files(name, language, content, message, tmp_path):
    file = file_of(make_files(tmp_path), name, language)
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(DataError, match=message.format(file=file)):
        read(tmp_path)


def test_empty_files(tmp_path):
    make_files(tmp_path, {**LINES, "val": ([], [])})
    with pytest.raises(DataError, match="val.lc.norm.tok.en must have at least one line, got none"):
        read(tmp_path)


# One file


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Go on.", "go on ."),
        ("I don't know, Tom!", "i don ' t know , tom !"),
        ("C'est \u00e7a ?", "c ' est \u00e7a ?"),
        ("cafe\u0301 10:30", "caf\u00e9 10 : 30"),
        ("¿Qué?…", "¿ qué ? …"),
        ("हिन्दी में।", "हिन्दी में ।"),
        ("İstanbul'a", "i̇stanbul ' a"),
        ("بِسْمِ می‌خواهم", "بِسْمِ می‌خواهم"),
        ("a_b", "a _ b"),
    ],
)
def test_raw_text(text, words):
    assert tokenize_raw(text) == tuple(words.split())


def sentence(number):
    return f"This is number {number}."


def write_tsv(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def split_of(splits):
    return {pair.source: split.split for split in splits for pair in split.pairs}


def test_one_file_is_split_by_content(tmp_path):
    lines = [f"{sentence(number)}\tNummer {number}\tsome (more)" for number in range(2000)]
    options = {"valid_fraction": 0.1, "test_fraction": 0.2}
    first = tab_separated(path=write_tsv(tmp_path / "a.tsv", lines), **options)
    train, valid, test = map(len, first)
    assert train + valid + test == 2000
    assert abs(test - 400) < 4 * (2000 * 0.2 * 0.8) ** 0.5 and abs(valid - 200) < 4 * (2000 * 0.1 * 0.9) ** 0.5
    random.Random(0).shuffle(lines)
    other = tab_separated(path=write_tsv(tmp_path / "b.tsv", lines), **options)
    assert split_of(first) == split_of(other)
    part = tab_separated(path=write_tsv(tmp_path / "c.tsv", lines[:500]), **options)
    assert split_of(part).items() <= split_of(first).items()  # independent of the order and of other lines
    assert first.train.pairs[0].references == (("nummer", first.train.pairs[0].source[3]),)
    assert first.train.tokenizer.split("Go on!") == ("go", "on", "!")


def test_pairs_of_one_source_stay_together(tmp_path):
    lines = []
    for number in range(300):
        lines += [f"Number {number}.\tNummer {number}", f"number {number} .\tDie Zahl {number}"]
        lines += [f"NUMBER {number}.\tNummer {number}"]  # a duplicate
    random.Random(1).shuffle(lines)
    splits = tab_separated(path=write_tsv(tmp_path / "a.tsv", lines), valid_fraction=0.2, test_fraction=0.3)
    sources = [{pair.source for pair in split.pairs} for split in splits]
    assert sum(map(len, sources)) == len(set.union(*sources)) == 300
    assert len(splits.train) == 2 * len(sources[0])  # each pair is one training example
    for split in splits[1:]:
        assert len(split) == len({pair.source for pair in split.pairs})
        for pair in split.pairs:  # each source is scored once, with all references
            assert sorted(pair.references) == [("die", "zahl", pair.source[1]), ("nummer", pair.source[1])]
    [batch] = splits.test.epoch(seed=0, epoch=0, batch_size=len(splits.test))
    assert all(len(pair.references) == 1 for pair in batch.pairs)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a\tb", "c d"], "{path}, line 2, must have a tab between source and target, got 'c d'"),
        (["a\tb", "c\t "], "{path}, line 2, must have words, got ' '"),
        (["a\tb", "\td"], "{path}, line 2, must have words, got ''"),
        (["a\tb", "c\td", ""], "{path}, line 3, must have a tab between source and target, got ''"),
        (["a\tb"], "{path} must have a sentence for every split, but none of its 1 source sentences is in .*"),
        ([], "{path} must have a sentence for every split, but none of its 0 source sentences is in train"),
    ],
)
def test_invalid_tsv(lines, message, tmp_path):
    path = write_tsv(tmp_path / "a.tsv", lines)
    with pytest.raises(DataError, match=message.format(path=path)):
        tab_separated(path=path, valid_fraction=0.1, test_fraction=0.1)


def test_missing_file(tmp_path):
    with pytest.raises(DataError, match=f"cannot read {tmp_path}/none.tsv: No such file or directory"):
        tab_separated(path=tmp_path / "none.tsv", valid_fraction=0.1, test_fraction=0.1)
