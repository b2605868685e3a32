"""The task of translating sentences; the commands for trained translators are in `translation_commands.py`.

Shapes: B batch, N words of a translation, L source words.
"""

from typing import TYPE_CHECKING, Any, Self

from glimpse.data.base import Splits
from glimpse.data.sentence_pairs import PairBatch, PairDataset, pairs_of
from glimpse.data.vocabulary import Tokens, Vocabulary
from glimpse.distributed import Processes
from glimpse.evaluation.translate import TrainedTranslator, translate
from glimpse.metrics.translations import TranslationScores
from glimpse.models.decoding import BeamSearch
from glimpse.models.encoder_decoder import Translator
from glimpse.models.sentence_encoder import Sentences, encode_sentences
from glimpse.tasks.base import TASKS
from glimpse.tasks.build import build_data, make_translator
from glimpse.tasks.sequences import initialize_from, load_vocabulary
from glimpse.tasks.settings import TranslationConfig
from glimpse.tasks.translation_commands import TranslationCommands
from glimpse.view.tables import Table, translation_table

if TYPE_CHECKING:
    from glimpse.training.run import Run


@TASKS.register("translation")
class TranslationTask(TranslationCommands):
    """Train a translator."""

    data: Splits[PairDataset]

    def __init__(
        self,
        config: TranslationConfig,
        data: Splits[PairDataset],
        model: Translator,
        processes: Processes,
        *,
        vocabulary: Vocabulary,
        source_vocabulary: Vocabulary,
    ):
        """Prepare the training; `source_vocabulary` is that of the encoder."""
        super().__init__(config, data, model, processes, vocabulary=vocabulary)
        self.source_vocabulary = source_vocabulary

    @classmethod
    def make(
        cls, config: TranslationConfig, processes: Processes, resumed_from: "Run | None", initial: "Run | None"
    ) -> Self:
        """See `Task`."""
        data = build_data(config.data)
        pairs = list(data.train.vocabulary_pairs())
        source = Vocabulary.of((pair.source for pair in pairs), min_count=config.encoder.min_count)
        target = Vocabulary.of((pair.references[0] for pair in pairs), min_count=config.decoder.min_count)
        model = make_translator(config, source_size=len(source), vocabulary_size=len(target))
        if initial is not None:
            initialize_from(initial, model, source_words=source, words=target)
        return cls(config, data, model, processes, vocabulary=target, source_vocabulary=source)

    @classmethod
    def load(cls, run: "Run") -> TrainedTranslator:
        """See `Task`."""
        config = cls.config_of(run)
        source, target = load_vocabulary(run, "source_words"), load_vocabulary(run, "words")
        model = make_translator(config, source_size=len(source), vocabulary_size=len(target))
        run.load_weights(model)
        return TrainedTranslator(run, model.eval(), source, target, config.data.tokenizer())

    def metadata(self) -> dict[str, Any]:
        """See `Task`."""
        return {"source_words": self.source_vocabulary.words, "words": self.vocabulary.words}

    def examples(self) -> str:
        """See `Task`."""
        return "sentences"

    def inputs_and_targets(self, batch: PairBatch) -> tuple[Sentences, list[Tokens]]:
        """See `SequenceTask`."""
        source = encode_sentences(self.source_vocabulary, [pair.source for pair in batch.pairs], batch.width)
        return source.to(self.processes.device), [pair.references[0] for pair in batch.pairs]

    def evaluate(self, data: PairDataset, *, search: BeamSearch, limit: int | None = None) -> TranslationScores:
        """See `SequenceTask`."""
        translations = translate(
            self.model,
            self.source_vocabulary,
            self.vocabulary,
            pairs_of(data, limit),
            mode=self.config.score.read,
            search=search,
            batch_size=self.config.score.batch_size,
            device=self.processes.device,
        )
        return TranslationScores.of(translations)

    def test_table(self, scores: TranslationScores) -> tuple[Table, str]:
        """See `Task`."""
        return translation_table({"score": scores.as_dict()}), ""

    def next_commands(self, run: "Run") -> list[str]:
        """See `Task`."""
        return [f"python evaluate.py translate {run.folder} SENTENCE ..."]
