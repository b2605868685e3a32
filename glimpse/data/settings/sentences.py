"""Settings of the data sets of sentences and their translations."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from glimpse.data.settings.base import DATASETS, SentenceDataSettings, check_fractions

if TYPE_CHECKING:
    from glimpse.data.sentence_pairs import Tokenizer, TranslationSplits


@DATASETS.register("dates")
class DatesSettings(SentenceDataSettings):
    """data: dates as people write them, to be translated to ISO 8601."""

    kind: Literal["dates"] = "dates"
    """Dates as people write them, to be translated to ISO 8601."""

    def title(self) -> str:
        """See `DataSettings`."""
        return "dates"

    def build(self) -> "TranslationSplits":
        """Make the splits."""
        from glimpse.data.dates import dates

        return dates()

    def tokenizer(self) -> "Tokenizer":
        """How dates become words."""
        from glimpse.data.dates import Dates

        return Dates.script


@DATASETS.register("parallel")
class ParallelTextSettings(SentenceDataSettings):
    """data: text files, one sentence a line, with their translations."""

    paths = ("root",)
    kind: Literal["parallel"] = "parallel"
    """Text files, one sentence a line, with their translations."""
    root: str = "data"
    """Folder of the text files."""
    source_language: str = "en"
    """Ending of the names of the files to translate from, as in train.en."""
    target_language: str = "de"
    """Ending of the names of the files to translate into, whose lines belong to those of the others."""
    train_file: str = "train"
    """Beginning of the names of the two training files, words between white space."""
    valid_file: str = "val"
    """Beginning of the names of the two files to validate with."""
    test_file: str = "test"
    """Beginning of the names of the two files to test with."""
    tsv: str | None = None
    """In place of those, one file, from root or absolute, of raw source, tab and target in each line; its splits are
    made by valid_fraction and test_fraction."""
    valid_fraction: float = 0.1
    """With tsv: fraction of the sentences held out for validation."""
    test_fraction: float = 0.1
    """With tsv: fraction of the sentences held out for the test."""

    def check(self) -> None:
        """Check the ranges."""
        check_fractions(self)

    def idle(self) -> set[str]:
        """One file replaces the names of several, and the other way round."""
        if self.tsv is None:
            return {"valid_fraction", "test_fraction"}
        return {"source_language", "target_language", "train_file", "valid_file", "test_file"}

    def build(self) -> "TranslationSplits":
        """Make the splits."""
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
        """How texts become words: raw text by its words and signs, else between white space."""
        from glimpse.data.parallel_text import RAW_TEXT, WHITESPACE

        return WHITESPACE if self.tsv is None else RAW_TEXT
