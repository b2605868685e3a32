"""The configuration of a run: typed, frozen and checked. `parsing.py` reads it from files and command lines.

`sensor: {patch_size: 8}` in a YAML file is `Config.sensor.patch_size` and `--sensor.patch_size 8`. A file holds only
what differs from the defaults of `settings.py`. Models, sensors and losses take plain values: `build.py` reads them off
here.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from glimpse.settings import (
    AttentionConfig,
    DataConfig,
    DecoderConfig,
    EncoderConfig,
    LossConfig,
    NetworkConfig,
    ScoreConfig,
    SensorConfig,
    TrainConfig,
    require,
    require_positive,
)

CAPTIONED = ("digit_captions", "coco", "karpathy")  # kinds of data with captions
TRANSLATED = ("dates", "parallel")  # with translations
TWO_FILES = ["source_language", "target_language", "train_file", "valid_file", "test_file"]  # which one file replaces


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run."""

    seed: int = 0
    """Decides every random choice of the run."""
    model: Literal["attention", "cnn", "fc", "captioner", "translator"] = "attention"
    """Recurrent attention; to compare it with, a network of the whole image, convolutional or fully connected; or what
    describes images in words, attending to a grid; or what translates sentences, attending to their words."""
    read: Literal["hard", "soft"] = "hard"
    """Sample one place to look and learn by REINFORCE, or take the expectation and learn by back-propagation."""
    num_glimpses: int = 6
    """Number T of glimpses."""
    init_from: str | None = None
    """Run folder to take the initial weights from."""
    data: DataConfig = field(default_factory=DataConfig)
    sensor: SensorConfig = field(default_factory=SensorConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    score: ScoreConfig = field(default_factory=ScoreConfig)

    def __post_init__(self) -> None:
        require(0 <= self.seed < 2**32, "seed", "in [0, 2**32)", self.seed)
        require_positive(self, "", "num_glimpses")
        require(
            self.attention.policy != "oracle" or self.model != "attention" or self.data.kind == "cluttered",
            "data.kind",
            "cluttered with attention.policy oracle, which must be told where the digits are",
            self.data.kind,
        )
        if self.model == "attention":
            _require_places(self)
        if self.model == "translator" or (self.model == "captioner" and self.encoder.name == "small"):
            require_annotations(self, self.encoder.dim)
        require(
            self.num_glimpses > 1 or not self.network.halt,
            "network.halt",
            "false with num_glimpses 1, which leave nothing to stop",
            self.network.halt,
        )
        start = self.encoder.fine_tune_from
        require(
            start is None or start <= self.train.epochs,
            "encoder.fine_tune_from",
            f"null or at most train.epochs {self.train.epochs}",
            start,
        )
        captions = self.data.kind in CAPTIONED
        require(
            (self.model == "captioner") == captions,
            "model",
            f"captioner with data.kind {', '.join(CAPTIONED)}, and with no other",
            f"{self.model} with data.kind {self.data.kind}",
        )
        require(
            self.encoder.cache is None or self.data.kind != "digit_captions",
            "encoder.cache",
            "null with data.kind digit_captions, whose images are never the same",
            self.encoder.cache,
        )
        translations = self.data.kind in TRANSLATED
        require(
            (self.model == "translator") == translations,
            "model",
            f"translator with data.kind {', '.join(TRANSLATED)}, and with no other",
            f"{self.model} with data.kind {self.data.kind}",
        )
        require(
            (self.attention.places in ("words", "none")) == translations,
            "attention.places",
            "words or none with model translator, and plane or grid with any other",
            f"{self.attention.places} with model {self.model}",
        )
        for name, value, idle in (
            ("attention.window", self.attention.window, None),
            ("encoder.self_attention", self.encoder.self_attention, 0),
        ):
            require(
                self.attention.places != "none" or value == idle,
                name,
                f"{'null' if idle is None else idle} with attention.places none, where there is one annotation only",
                value,
            )
        require(
            not translations or self.encoder.dim % 2 == 0,
            "encoder.dim",
            "even with model translator, a half for each direction",
            self.encoder.dim,
        )
        require(
            not translations or self.loss.doubly_stochastic == 0,
            "loss.doubly_stochastic",
            "0 with model translator, as words of a sentence may well be attended to twice, or never",
            self.loss.doubly_stochastic,
        )
        told = captions or translations
        require(
            (self.loss.baseline == "moving_average") <= told
            and (not told or self.loss.baseline in ("none", "moving_average")),
            "loss.baseline",
            "none or moving_average for captions and translations, and not moving_average for classes",
            f"{self.loss.baseline} with data.kind {self.data.kind}",
        )


def _require_places(config: Config) -> None:
    """Refuse settings of attention to a grid that ask for what is not there."""
    attention, network = config.attention, config.network
    require(
        attention.window is None or attention.places == "grid",
        "attention.window",
        "null with attention.places plane, where a std says how far attention reaches",
        attention.window,
    )
    if attention.places == "grid" and attention.scorer == "dot":
        _require_equal("network.glimpse_dim", network.glimpse_dim, "network.state_dim", network.state_dim)
        require(
            config.loss.reward_reaches_core or attention.window or config.read == "soft" or config.loss.mixes,
            "loss.reward_reaches_core",
            "true with attention.scorer dot and no attention.window, or nothing would learn where to look",
            config.loss.reward_reaches_core,
        )


def require_annotations(config: Config, size: int) -> None:
    """Refuse settings that do not go together with annotations of this size, which only the encoder may know."""
    if config.attention.scorer == "dot":
        _require_equal("the size of an annotation", size, "decoder.state_dim", config.decoder.state_dim)
    require(
        config.encoder.self_attention == 0 or size % config.encoder.heads == 0,
        "encoder.heads",
        f"a divisor of the size of an annotation, {size}, with encoder.self_attention",
        config.encoder.heads,
    )


def _require_equal(what: str, size: int, key: str, value: int) -> None:
    require(size == value, key, f"{size}, {what}, with attention.scorer dot (bilinear takes any)", value)


def keys(cls: type = Config, prefix: str = "") -> Iterator[str]:
    """All settings by their dotted names."""
    for entry in dataclasses.fields(cls):
        if dataclasses.is_dataclass(entry.type):
            yield from keys(entry.type, f"{prefix}{entry.name}.")
        else:
            yield prefix + entry.name


def images_of(config: DataConfig) -> DataConfig:
    """The settings that decide which images or sentences there are.

    All others are as by default; null is what it stands for, and the folder is absolute, as run folders keep it.
    """
    if config.kind == "dates":
        return DataConfig(kind="dates")
    if config.kind not in ("cluttered", "digit_captions"):
        idle = ["workers", "download"]
        if config.kind == "parallel":
            idle += ["valid_fraction", "test_fraction"] if config.tsv is None else TWO_FILES
        defaults = {name: getattr(DataConfig, name) for name in idle}
        size = (config.size or (224, 224)) if config.kind in ("coco", "karpathy") else config.size
        return dataclasses.replace(config, root=str(Path(config.root).absolute()), size=size, **defaults)
    canvas = config.canvas if isinstance(config.canvas, tuple) else (config.canvas, config.canvas)
    names = ("kind", "num_digits", "num_distractors", "distractor_size", "target")
    return DataConfig(canvas=canvas, **{name: getattr(config, name) for name in names})


def different(one: Any, other: Any, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """The settings in which two configs, or two groups of settings of one kind, differ: dotted name and both values."""
    found = []
    for entry in dataclasses.fields(one):
        value, counterpart = getattr(one, entry.name), getattr(other, entry.name)
        if dataclasses.is_dataclass(value):
            found += different(value, counterpart, f"{prefix}{entry.name}.")
        elif value != counterpart:
            found.append((prefix + entry.name, value, counterpart))
    return found


def to_yaml(config: Config) -> str:
    """Write a config as YAML that `parsing.parse` reads back."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(entry) for key, entry in value.items()}
        return list(value) if isinstance(value, tuple) else value

    return yaml.safe_dump(plain(dataclasses.asdict(config)), sort_keys=False)
