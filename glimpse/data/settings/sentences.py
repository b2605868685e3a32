"""Settings of the data sets of sentences and their translations."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from glimpse.data.settings.base import DATASETS, SentenceDataSettings, check_fractions

if TYPE_CHECKING:
    from glimpse.data.base import Splits
    from glimpse.data.sentence_pairs import PairDataset, Tokenizer


@DATASETS.register("dates")
class DatesSettings(SentenceDataSettings):
    """data: dates in natural language, to be translated to ISO 8601."""

    kind: Literal["dates"] = "dates"
    """Dates in natural language, to be translated to ISO 8601."""

    def title(self) -> str:
        """See `DataSettings`."""
        return "dates"

    def build(self) -> "Splits[PairDataset]":
        """Open the splits."""
        from glimpse.data.dates import dates

        return dates()

    def tokenizer(self) -> "Tokenizer":
        """See `SentenceDataSettings`."""
        from glimpse.data.dates import Dates

        return Dates.tokenizer


@DATASETS.register("parallel")
class ParallelTextSettings(SentenceDataSettings):
    """data: text files of sentences and their translations, one sentence per line."""

    paths = ("root",)
    kind: Literal["parallel"] = "parallel"
    """Text files of sentences and their translations, one sentence per line."""
    root: str = "data"
    """Folder of the text files."""
    source_language: str = "en"
    """Suffix of the source files, as in train.en."""
    target_language: str = "de"
    """Suffix of the target files; line n is the translation of line n of the source file."""
    train_file: str = "train"
    """Name of the two training files without the suffix; tokens separated by spaces."""
    valid_file: str = "val"
    """Name of the two validation files without the suffix."""
    test_file: str = "test"
    """Name of the two test files without the suffix."""
    tsv: str | None = None
    """A single file in place of the six, relative to root or absolute, with source, tab and target in each line; raw
    text, of which valid_fraction and test_fraction are held out."""
    valid_fraction: float = 0.1
    """With tsv: fraction of the sentences to hold out for validation."""
    test_fraction: float = 0.1
    """With tsv: fraction of the sentences to hold out for the test."""

    def check(self) -> None:
        """Check the ranges."""
        check_fractions(self)

    def idle(self) -> set[str]:
        """The settings of separate files, or those of a single file."""
        if self.tsv is None:
            return {"valid_fraction", "test_fraction"}
        return {"source_language", "target_language", "train_file", "valid_file", "test_file"}

    def build(self) -> "Splits[PairDataset]":
        """Open the splits."""
        from glimpse.data.parallel_text import parallel_files, tab_separated

        if self.tsv is not None:
            return tab_separated(
                path=Path(self.root, self.tsv),
                valid_fraction=self.valid_fraction,
                test_fraction=self.test_fraction,
            )
        return parallel_files(
            root=self.root,
            train_file=self.train_file,
            valid_file=self.valid_file,
            test_file=self.test_file,
            source_language=self.source_language,
            target_language=self.target_language,
        )

    def tokenizer(self) -> "Tokenizer":
        """See `SentenceDataSettings`; a single file is raw text, separate files are tokenized already."""
        from glimpse.data.parallel_text import RAW_TEXT, WHITESPACE

        return WHITESPACE if self.tsv is None else RAW_TEXT
