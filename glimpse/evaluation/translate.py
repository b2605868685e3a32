"""Translate sentences with a trained translator."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import torch

from glimpse.attention.settings import ReadMode
from glimpse.data.sentence_pairs import SentencePair, Tokenizer
from glimpse.data.vocabulary import Tokens, Vocabulary
from glimpse.errors import RunError
from glimpse.metrics.translations import Translation
from glimpse.models.decoding import GREEDY, BeamSearch, beam
from glimpse.models.encoder_decoder import Translator
from glimpse.models.inference import evaluating
from glimpse.models.sentence_encoder import encode_sentences

if TYPE_CHECKING:
    from glimpse.tasks.settings import TranslationConfig
    from glimpse.training.run import Run


@torch.no_grad()
def translate(
    model: Translator,
    source_vocabulary: Vocabulary,
    vocabulary: Vocabulary,
    pairs: Sequence[SentencePair],
    *,
    mode: ReadMode | None = None,
    search: BeamSearch = GREEDY,
    batch_size: int = 500,
    device: torch.device | str = "cpu",
) -> list[Translation]:
    """Translate sentences.

    Args:
        model: The translator.
        source_vocabulary: The vocabulary of the source language.
        vocabulary: The vocabulary of the target language.
        pairs: The sentences, with or without references.
        mode: Read mode, "hard" or "soft"; None: the model's own mode. Hard reads take the most likely place.
        search: Beam width, length penalty and maximum length.
        batch_size: Sentences per batch; batches are made of sentences of similar length.
        device: Device to compute on.

    Returns:
        The translations, in the order of the sentences.
    """
    order = sorted(range(len(pairs)), key=lambda index: len(pairs[index].source))
    translations: dict[int, Translation] = {}
    with evaluating(model):
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            sentences = encode_sentences(source_vocabulary, [pairs[row].source for row in rows])
            annotations = model.annotate(sentences.to(device))
            hypotheses = beam(model.decoder, annotations, mode=mode, **search._asdict())
            for row, hypothesis in zip(rows, hypotheses, strict=True):
                words = vocabulary.decode(hypothesis.words)
                weights = hypothesis.weights[:, : len(pairs[row].source)].cpu()  # without the padding of the source
                translations[row] = Translation(
                    pairs[row], words, hypothesis.log_prob, weights, hypothesis.places.cpu()
                )
    return [translations[row] for row in range(len(pairs))]


class TrainedTranslator(NamedTuple):
    """A trained translator with its run and vocabularies: `glimpse.load(RUN).translate(["the 3rd of May, 1998"])`."""

    run: "Run"
    model: Translator
    source_vocabulary: Vocabulary
    vocabulary: Vocabulary
    tokenizer: Tokenizer

    @property
    def config(self) -> "TranslationConfig":
        """The config of the run."""
        return cast("TranslationConfig", self.run.config)  # its class was checked when the run was loaded

    def unknown_words(self, sentence: Tokens) -> list[str]:
        """The words of a sentence that are not in the source vocabulary."""
        return [word for word in sentence if word not in self.source_vocabulary.words]

    def translate(
        self, texts: Sequence[str], *, mode: ReadMode | None = None, device: torch.device | str = "cpu"
    ) -> list[Translation]:
        """Translate texts of one sentence each, with the beam search of the run's test.

        Args:
            texts: The sentences.
            mode: Read mode, "hard" or "soft"; None: that of the run's validation and test.
            device: Device to compute on.

        Raises:
            ValueError: See `read`.
            RunError: See `read`.
        """
        return self.translate_pairs(self.read(texts), mode=mode, device=device)

    def read(self, texts: Sequence[str]) -> list[SentencePair]:
        """Tokenize texts with the tokenizer of the run's data.

        Raises:
            ValueError: If `texts` is a single string.
            RunError: If a text has no words; or if it has unknown words and the run has `encoder.min_count` 1, so that
                no word was replaced by `<unknown>` in training.
        """
        if isinstance(texts, str):
            raise ValueError(f"texts must be a list of sentences, got the string {texts!r}")
        pairs = [SentencePair(self.tokenizer.split(text), ()) for text in texts]
        for number, (text, pair) in enumerate(zip(texts, pairs, strict=True), 1):
            if not pair.source:
                raise RunError(f"sentence {number} must have words, got {text!r}")
            if self.config.encoder.min_count == 1 and (unknown := self.unknown_words(pair.source)):
                words = ", ".join(map(repr, unknown))
                raise RunError(
                    f"sentence {number} must have words of the vocabulary of {self.run}, got {words} in {text!r}"
                )
        return pairs

    def translate_pairs(
        self,
        pairs: Sequence[SentencePair],
        *,
        mode: ReadMode | None = None,
        batch_size: int | None = None,
        device: torch.device | str = "cpu",
    ) -> list[Translation]:
        """Translate tokenized sentences, with the beam search of the run's test.

        Args:
            pairs: The sentences, with or without references.
            mode: Read mode, "hard" or "soft"; None: that of the run's validation and test.
            batch_size: Sentences per batch; None: `score.batch_size` of the run.
            device: Device to compute on.
        """
        config = self.config
        return translate(
            self.model.to(device),
            self.source_vocabulary,
            self.vocabulary,
            pairs,
            mode=mode or config.score.read,
            search=config.search(),
            batch_size=batch_size or config.score.batch_size,
            device=device,
        )
