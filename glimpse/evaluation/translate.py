"""Translate sentences with a trained translator.

Shapes: N words of a translation, L source words.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

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
    """Let a translator translate sentences.

    Args:
        model: The translator.
        source_vocabulary: The words it reads.
        vocabulary: The words it says.
        pairs: The sentences, with or without references.
        mode: Read hard or soft; the model's own way if not given.
        search: How translations are searched for.
        batch_size: Sentences at a time, of about one length.
        device: Where to compute.

    Returns:
        The translations, in the order of the sentences.
    """
    order = sorted(range(len(pairs)), key=lambda index: len(pairs[index].source))
    found: dict[int, Translation] = {}
    with evaluating(model):
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            sentences = encode_sentences(source_vocabulary, [pairs[row].source for row in rows])
            annotations = model.annotate(sentences.to(device))
            outputs = beam(model.decoder, annotations, mode=mode, **search._asdict())
            for row, output in zip(rows, outputs, strict=True):
                words, weights = vocabulary.decode(output.words), output.weights[:, : len(pairs[row].source)]
                found[row] = Translation(pairs[row], words, output.log_prob, weights.cpu(), output.places.cpu())
    return [found[row] for row in range(len(pairs))]


class TrainedTranslator(NamedTuple):
    """A run that translates: `glimpse.load(RUN).translate(["the 3rd of May, 1998"])`."""

    run: "Run"
    model: Translator
    source_vocabulary: Vocabulary
    vocabulary: Vocabulary
    script: Tokenizer

    def unknown_words(self, sentence: Tokens) -> list[str]:
        """Those of the source words that it has never learned."""
        return [word for word in sentence if word not in self.source_vocabulary.words]

    def translate(
        self, texts: Sequence[str], *, mode: ReadMode | None = None, device: torch.device | str = "cpu"
    ) -> list[Translation]:
        """Translate texts, one sentence each, with the beam of the run's test.

        Args:
            texts: The sentences, split into words as the run's data was.
            mode: Read hard or soft; as the run was scored if not given.
            device: Where to compute.

        Raises:
            RunError: As `read`.
        """
        return self.translate_pairs(self.read(texts), mode=mode, device=device)

    def read(self, texts: Sequence[str]) -> list[SentencePair]:
        """Split texts into words as the run's data was.

        Raises:
            ValueError: If it is one text, and not a list of them.
            RunError: If a text has no words; or one that the run does not know, if it has never met such words in its
                training, which it has with encoder.min_count above 1.
        """
        if isinstance(texts, str):
            raise ValueError(f"texts must be a list of sentences, got the one text {texts!r}")
        pairs = [SentencePair(self.script.split(text), ()) for text in texts]
        for number, (text, pair) in enumerate(zip(texts, pairs, strict=True), 1):
            if not pair.source:
                raise RunError(f"sentence {number} must have words, got {text!r}")
            if self.run.config.encoder.min_count == 1 and (unknown := self.unknown_words(pair.source)):
                words = ", ".join(map(repr, unknown))
                raise RunError(f"{self.run} does not know {words} of sentence {number}, {text!r}")
        return pairs

    def translate_pairs(
        self,
        pairs: Sequence[SentencePair],
        *,
        mode: ReadMode | None = None,
        batch_size: int | None = None,
        device: torch.device | str = "cpu",
    ) -> list[Translation]:
        """Translate sentences that are split already, with the beam of the run's test.

        Args:
            pairs: The sentences, with or without references.
            mode: Read hard or soft; as the run was scored if not given.
            batch_size: Sentences at a time; as the run was scored if not given.
            device: Where to compute.
        """
        config = self.run.config
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
