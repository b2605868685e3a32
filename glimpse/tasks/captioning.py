"""The task of captioning images; the commands for trained captioners are in `captioning_commands.py`."""

from typing import TYPE_CHECKING, Any, Self

from torch import Tensor

from glimpse.data.base import Splits
from glimpse.data.captions import CaptionBatch, CaptionDataset
from glimpse.data.vocabulary import Tokens, Vocabulary
from glimpse.distributed import Processes
from glimpse.errors import ConfigError, RunError
from glimpse.evaluation.caption import CaptionScores, TrainedCaptioner, caption_dataset, score_captions
from glimpse.models.decoding import BeamSearch
from glimpse.models.encoder_decoder import Captioner
from glimpse.tasks.base import TASKS
from glimpse.tasks.build import build_data, make_captioner
from glimpse.tasks.captioning_commands import CaptioningCommands, with_cached_features
from glimpse.tasks.sequences import initialize_from, load_vocabulary
from glimpse.tasks.settings import CaptioningConfig
from glimpse.view.tables import Table, caption_table

if TYPE_CHECKING:
    from glimpse.training.run import Run


@TASKS.register("captioning")
class CaptioningTask(CaptioningCommands):
    """Train a captioner."""

    data: Splits[CaptionDataset]

    def __init__(
        self,
        config: CaptioningConfig,
        data: Splits[CaptionDataset],
        model: Captioner,
        processes: Processes,
        *,
        vocabulary: Vocabulary,
    ):
        super().__init__(config, data, model, processes, vocabulary=vocabulary)
        self.doubly_stochastic = config.loss.doubly_stochastic
        start = config.encoder.unfrozen_at
        # Fraction of the training after which the encoder is trained too; None: it stays frozen.
        self.unfreeze_at = None if start is None else (start - 1) / config.train.epochs

    @classmethod
    def make(
        cls, config: CaptioningConfig, processes: Processes, resumed_from: "Run | None", initial: "Run | None"
    ) -> Self:
        """See `Task`."""
        data = build_data(config.data)
        vocabulary = Vocabulary.of(data.train.vocabulary_captions(), min_count=config.decoder.min_count)
        shape = data.train.image_shape
        fresh = resumed_from is None and initial is None  # else the encoder's weights are in the checkpoint
        model = make_captioner(config, image_shape=shape, vocabulary_size=len(vocabulary), pretrained=fresh)
        try:
            model.encoder.grid(*shape[1:])
        except RuntimeError as error:
            raise ConfigError(
                f"data.size must be larger for encoder {config.encoder.title}, got {list(shape[1:])}", key="data.size"
            ) from error
        if resumed_from is not None:
            resumed_from.load_last_weights(model)  # before the encoder computes features
        elif initial is not None:
            initialize_from(initial, model, words=vocabulary)
        data = with_cached_features(config, data, model, processes)
        return cls(config, data, model, processes, vocabulary=vocabulary)

    @classmethod
    def load(cls, run: "Run") -> TrainedCaptioner:
        """See `Task`."""
        config = cls.config_of(run)
        vocabulary = load_vocabulary(run, "words")
        try:
            channels, height, width = map(int, run.read_json("meta.json")["image_shape"])
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{run.folder / 'meta.json'} is broken: {error!r}") from error
        shape = (channels, height, width)
        model = make_captioner(config, image_shape=shape, vocabulary_size=len(vocabulary), pretrained=False)
        run.load_weights(model)
        return TrainedCaptioner(run, model.eval(), vocabulary, shape)

    def metadata(self) -> dict[str, Any]:
        """See `Task`."""
        return {"image_shape": self.data.train.image_shape, "words": self.vocabulary.words}

    def on_progress(self, progress: float) -> None:
        """See `Task`; the encoder may be unfrozen."""
        super().on_progress(progress)
        if self.unfreeze_at is not None and progress >= self.unfreeze_at and self.model.encoder.frozen:
            self.model.encoder.unfreeze()

    @property
    def every_parameter_has_gradient(self) -> bool:
        """See `Task`: an encoder that is unfrozen later has no gradient until then."""
        return super().every_parameter_has_gradient and self.unfreeze_at is None

    def inputs_and_targets(self, batch: CaptionBatch) -> tuple[Tensor, list[Tokens]]:
        """See `SequenceTask`."""
        return batch.images.to(self.processes.device), [caption for (caption,) in batch.captions]

    def evaluate(self, data: CaptionDataset, *, search: BeamSearch, limit: int | None = None) -> CaptionScores:
        """See `SequenceTask`."""
        results = caption_dataset(
            self.model,
            self.vocabulary,
            data,
            mode=self.config.score.read,
            search=search,
            batch_size=self.config.score.batch_size,
            limit=limit,
            device=self.processes.device,
        )
        return score_captions(results)

    def test_table(self, scores: CaptionScores) -> tuple[Table, str]:
        """See `Task`."""
        return caption_table({"score": scores.as_dict()}), ""

    def next_commands(self, run: "Run") -> list[str]:
        """See `Task`."""
        return [f"python evaluate.py report {run.folder}   # hover over a word to see its attention"]
