"""The settings of a run, group by group: typed, frozen and checked; `config.Config` joins the groups."""

from dataclasses import dataclass
from typing import Any, Literal


class ConfigError(ValueError):
    """A setting that cannot be; the message names it, says what is valid, and what came."""


def require(ok: bool, key: str, expected: str, got: Any) -> None:
    """Raise a ConfigError unless a setting is as expected."""
    if not ok:
        raise ConfigError(f"{key} must be {expected}, got {got!r}")


def require_positive(config: Any, group: str, *names: str) -> None:
    """Raise a ConfigError unless these settings of a group are positive."""
    for name in names:
        value = getattr(config, name)
        require(value > 0, f"{group}{name}", "positive" if isinstance(value, float) else "at least 1", value)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """data: what to look at."""

    kind: Literal["cluttered", "torchvision", "folder", "digit_captions", "coco", "karpathy", "dates", "parallel"] = (
        "cluttered"
    )
    """MNIST digits among clutter, made on the fly; a torchvision data set; a folder of images; digits with captions;
    photographs with captions, as COCO publishes them or in Karpathy's splits; dates as people write them, to be
    translated to ISO 8601; text files with translations."""
    canvas: int | tuple[int, int] = 60
    """cluttered, digit_captions: side of the image in pixels, or [height, width]; at least 28."""
    num_digits: int = 1
    """cluttered: digits per image. digit_captions: the most that an image may have, up to 4."""
    num_distractors: int = 4
    """cluttered, digit_captions: pieces of other digits per image; 0 is translated MNIST, on a canvas of 28 plain."""
    distractor_size: int = 8
    """cluttered, digit_captions: side of a distractor in pixels."""
    target: Literal["label", "mark", "combine", "sum"] = "label"
    """cluttered: what to predict: the one digit, or of several which are there, their combination, their sum."""
    name: str = "CIFAR10"
    """torchvision: class name of the data set."""
    root: str = "data"
    """torchvision: its folder. folder: one with a subfolder a class, or with train/, valid/ and test/ of such. coco:
    that of train2017/, val2017/ and annotations/. karpathy: the folder from which the annotations name image files.
    parallel: that of the text files."""
    annotations: str = "dataset_coco.json"
    """karpathy: the JSON file of captions and splits, from root or absolute."""
    year: Literal[2014, 2017] = 2017
    """coco: which of the two editions."""
    broken: Literal["error", "skip"] = "error"
    """coco, karpathy: what to do about images that are missing or cannot be decoded; skip counts them."""
    size: tuple[int, int] | None = None
    """Resize images to [height, width]. torchvision, folder: null if they have one size already. coco, karpathy: they
    are scaled and cropped; null is [224, 224]."""
    channels: Literal[1, 3] | None = None
    """torchvision, folder: read images as grey (1) or colour (3); null: as the first image is."""
    download: bool = False
    """torchvision: fetch the data if it is not there."""
    valid_fraction: float = 0.1
    """torchvision, folder, coco: part of the training images held out to select the best epoch, if there is no such
    split. parallel, with tsv: part of the sentences."""
    test_fraction: float = 0.1
    """folder: part of the images held out for the test, if there is no test/ folder. parallel, with tsv: part of the
    sentences."""
    source_language: str = "en"
    """parallel: ending of the names of the files to translate from, as in train.en."""
    target_language: str = "de"
    """parallel: ending of the names of the files to translate into, whose lines belong to those of the others."""
    train_file: str = "train"
    """parallel: beginning of the names of the two training files, words between white space."""
    valid_file: str = "val"
    """parallel: of the two files to validate with."""
    test_file: str = "test"
    """parallel: of the two files to test with."""
    tsv: str | None = None
    """parallel: in place of those, one file, from root or absolute, of raw source, tab and target in each line; its
    splits are made by valid_fraction and test_fraction."""
    workers: int = 0
    """torchvision, folder, coco, karpathy: processes that read images."""

    def __post_init__(self) -> None:
        canvas = self.canvas if isinstance(self.canvas, tuple) else (self.canvas, self.canvas)
        require(min(canvas) >= 28, "data.canvas", "at least 28, the side of a digit", self.canvas)
        require_positive(self, "data.", "num_digits")
        require(0 <= self.num_distractors <= 200, "data.num_distractors", "in 0..200", self.num_distractors)
        require(self.num_digits <= 10, "data.num_digits", "at most 10", self.num_digits)
        require(1 <= self.distractor_size <= 28, "data.distractor_size", "in 1..28", self.distractor_size)
        require(
            (self.target == "label") == (self.num_digits == 1) or self.kind != "cluttered",
            "data.target",
            "label for one digit, and mark, combine or sum for several",
            f"{self.target} with data.num_digits {self.num_digits}",
        )
        require(self.size is None or min(self.size) >= 1, "data.size", "null or two numbers of at least 1", self.size)
        for name in ("valid_fraction", "test_fraction"):
            value = getattr(self, name)
            require(0 < value < 1, f"data.{name}", "between 0 and 1", value)
        held_out = self.valid_fraction + self.test_fraction
        require(held_out < 1, "data.valid_fraction", "less than 1 together with data.test_fraction", held_out)
        require(self.workers >= 0, "data.workers", "at least 0", self.workers)


@dataclass(frozen=True, kw_only=True)
class SensorConfig:
    """sensor: what a glimpse is."""

    patch_size: int = 12
    """Side G of the smallest square, in pixels, and of every patch."""
    num_scales: int = 3
    """Number K of concentric squares."""
    scale_factor: int = 2
    """How many times as wide each square is as the one before."""
    background: float = 0.0
    """What is seen outside the image; pixels are in [0, 1]."""
    plan: Literal["auto", "table", "crop"] = "auto"
    """How hard reads are computed; changes the speed only."""

    def __post_init__(self) -> None:
        require_positive(self, "sensor.", "patch_size", "num_scales", "scale_factor")
        require(
            self.scale_factor > 1 or self.num_scales == 1,
            "sensor.scale_factor",
            f"at least 2 with {self.num_scales} scales (else they are all the same)",
            self.scale_factor,
        )


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """network: from glimpses to answers."""

    what: Literal["fc", "conv"] = "conv"
    """The "what" path: one fully connected layer as in the paper, or convolutions before it."""
    what_dim: int = 128
    """Size of the "what" features."""
    where_dim: int = 128
    """Size of the "where" features."""
    glimpse_dim: int = 256
    """Size of the glimpse vector that joins them."""
    conv_channels: int = 32
    """Channels of the second convolution; the first has half as many (model cnn: the next 2 and 4 times as many)."""
    conv_layers: int = 4
    """Number of convolutions of the "what" path; those after the second have as many channels."""
    core: Literal["rnn", "gru", "lstm"] = "gru"
    """The recurrent core: the paper's ReLU network, or one with gates."""
    state_dim: int = 256
    """Size of the core's state, and of the hidden layers of model cnn and fc."""
    readout: Literal["last", "attend"] = "last"
    """Answer from the core's last state, or together with what attention recalls of all its states so far."""
    halt: bool = False
    """Whether a unit learns after which glimpse to stop; it changes nothing about looking and answering."""
    pixel_mean: float = 0.0
    """Subtracted from what was read."""
    pixel_std: float = 1.0
    """Divides what was read."""

    def __post_init__(self) -> None:
        require_positive(self, "network.", "what_dim", "where_dim", "glimpse_dim", "state_dim", "pixel_std")
        require(self.conv_channels >= 2, "network.conv_channels", "at least 2", self.conv_channels)
        require(self.conv_layers >= 2, "network.conv_layers", "at least 2", self.conv_layers)


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """attention: where to look."""

    places: Literal["plane", "grid", "words", "none"] = "plane"
    """Any point of the plane, or the cells of a grid of glimpses. model translator: the words of the sentence; or none,
    the plain sequence-to-sequence model, in which one annotation must hold the whole sentence."""
    policy: Literal["learned", "centre", "random", "raster", "oracle"] = "learned"
    """Who places the glimpses: the model; or, as a control that learns no policy, a rule; the oracle knows the box."""
    first: Literal["centre", "random", "learned"] = "centre"
    """The first glimpse of a learned policy."""
    std: float = 0.2
    """plane: standard deviation of the location; the half side of the image is 1."""
    std_end: float | None = 0.05
    """plane: shrink (or grow) the std to this while training, geometrically; null keeps it."""
    std_until: float = 0.8
    """plane: part of the training after which std_end is reached."""
    learn_std: bool = False
    """plane: let the model choose the std, starting from `std`; std_end then has no say."""
    squash: bool = True
    """plane: keep the mean location on the image by tanh."""
    clip: float | None = 0.5
    """plane: largest norm of the gradient of an image's loss with respect to a location that is read softly; null for
    no limit."""
    grid: tuple[int, int] = (5, 5)
    """grid: number of rows and columns."""
    scorer: Literal["additive", "dot", "bilinear", "scaled_dot"] = "additive"
    """grid, captions, translations, network.readout attend: how the relevance of a place, or of a state, is computed;
    dot needs a state of the size of what it looks at."""
    scorer_dim: int = 128
    """grid, captions, translations, network.readout attend: size of the space where additive and scaled dot-product
    scores are computed, and of the hidden layer that places a window."""
    window: int | None = None
    """grid, captions, translations: look only so many places to either side of a point that the state predicts; null:
    anywhere."""

    def __post_init__(self) -> None:
        require_positive(self, "attention.", "std", "scorer_dim")
        require(self.std_end is None or self.std_end > 0, "attention.std_end", "null or positive", self.std_end)
        require(self.clip is None or self.clip > 0, "attention.clip", "null or positive", self.clip)
        require(0 < self.std_until <= 1, "attention.std_until", "in (0, 1]", self.std_until)
        require(min(self.grid) >= 1, "attention.grid", "two numbers of at least 1", self.grid)
        require(self.window is None or self.window >= 1, "attention.window", "null or at least 1", self.window)


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """loss: what is learned from. All but `classify`, `glimpse_cost` and `doubly_stochastic` is for hard reads only."""

    classify: Literal["each", "last"] = "each"
    """Cross-entropy of the answer after each glimpse, or after the last as in the paper."""
    glimpse_cost: float = 0.01
    """network.halt: what a glimpse costs the halting unit, in nats of cross-entropy."""
    reinforce: float = 0.03
    """Weight of the REINFORCE term."""
    reward: Literal["accuracy", "log_likelihood"] = "log_likelihood"
    """What an answer earns: 1 if right, or the log-likelihood of the right class."""
    reward_when: Literal["each", "last"] = "each"
    """Whether a choice is judged by every answer after it, or by the last as in the paper."""
    discount: float = 0.0
    """each: weight of the next answer; 0 judges a choice by its own glimpse only."""
    baseline: Literal["none", "learned", "self_critical", "leave_one_out", "moving_average"] = "learned"
    """What the reward is compared with: nothing, a prediction, the greedy rollout, other rollouts; or, of captions and
    translations, the average of the last batches."""
    rollouts: int = 1
    """Rollouts of each image in a training step; leave_one_out needs at least 2."""
    normalise: bool = True
    """Give the advantages mean 0 and variance 1 in each batch, at each choice; so even without a baseline."""
    baseline_weight: float = 1.0
    """Weight of the error of a learned baseline."""
    entropy: float = 0.0
    """Weight of a bonus for the entropy of the attention."""
    reward_reaches_core: bool = True
    """Whether the reward's gradient passes the attention into the core, as in the paper, or ends there."""
    doubly_stochastic: float = 0.0
    """Captions: weight of the penalty for places that are attended to more or less than once in all."""
    mix: float = 0.0
    """Share of the training batches of a hard model that are read softly; the paper on captions has 0.5."""
    mix_end: float | None = None
    """Let that share change to this one, evenly while training; null keeps it. From 1 to 0 is a soft start."""
    mix_until: float = 1.0
    """Part of the training after which mix_end is reached."""

    @property
    def mixes(self) -> bool:
        """Whether batches of a hard model are ever read softly."""
        return self.mix > 0 or bool(self.mix_end)

    def __post_init__(self) -> None:
        require_positive(self, "loss.", "rollouts")
        for name in ("glimpse_cost", "reinforce", "baseline_weight", "entropy", "doubly_stochastic"):
            require(getattr(self, name) >= 0, f"loss.{name}", "at least 0", getattr(self, name))
        require(0 <= self.discount <= 1, "loss.discount", "in [0, 1]", self.discount)
        require(0 <= self.mix <= 1, "loss.mix", "in [0, 1]", self.mix)
        require(self.mix_end is None or 0 <= self.mix_end < 1, "loss.mix_end", "null or in [0, 1)", self.mix_end)
        require(0 < self.mix_until <= 1, "loss.mix_until", "in (0, 1]", self.mix_until)
        require(
            self.mix < 1 or self.mix_end is not None,
            "loss.mix_end",
            "less than 1 with loss.mix 1, or nothing would ever be read hard",
            self.mix_end,
        )
        require(
            self.rollouts > 1 or self.baseline != "leave_one_out",
            "loss.rollouts",
            "at least 2 with loss.baseline leave_one_out",
            self.rollouts,
        )


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """encoder: model captioner: from an image to a grid of annotations; model translator: from a sentence to notes."""

    name: str = "small"
    """Images: small, four convolutions for digits; or a network of torchvision, as vgg19; or one of timm, as
    timm:NAME."""
    dim: int = 128
    """small, and sentences: size of an annotation; of sentences, half of it from each direction."""
    embed_dim: int = 128
    """Sentences: size of an embedded source word."""
    dropout: float = 0.0
    """Sentences: part of the embedded words and of the annotations that is dropped in training."""
    min_count: int = 1
    """Sentences: how often a word must occur in the training sources to be known; above 1, unknown words are met in
    training."""
    channels: int = 16
    """small: channels of the first convolution; the next two have 2 and 4 times as many."""
    stride: Literal[8, 12] = 12
    """small: pixels from one place of the grid to the next."""
    weights: str | None = "default"
    """Not small: default, those that the library downloads; a file of them; or null, random ones."""
    fine_tune_from: int | None = None
    """Not small: the epoch, from 1, in which the encoder begins to learn too; null: it stays as it is."""
    cache: str | None = None
    """Not small: folder to keep what the encoder makes of all images in, so that it is computed once; null: nowhere."""
    self_attention: int = 0
    """Layers of self-attention between encoder and decoder, which learn even if the encoder does not; 0 for none."""
    heads: int = 4
    """self_attention: heads of a layer; they share the size of an annotation evenly."""

    def __post_init__(self) -> None:
        require_positive(self, "encoder.", "dim", "channels", "embed_dim", "min_count", "heads")
        require(0 <= self.dropout < 1, "encoder.dropout", "in [0, 1)", self.dropout)
        require(self.self_attention >= 0, "encoder.self_attention", "at least 0", self.self_attention)
        start = self.fine_tune_from
        require(start is None or start >= 1, "encoder.fine_tune_from", "null or at least 1", start)
        require(
            start is None or self.cache is None,
            "encoder.cache",
            "null with encoder.fine_tune_from, as what the encoder makes then changes",
            self.cache,
        )
        for name in ("fine_tune_from", "cache"):
            value = getattr(self, name)
            require(value is None or self.name != "small", f"encoder.{name}", "null with encoder.name small", value)


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """decoder: models captioner and translator: from annotations to words."""

    embed_dim: int = 128
    """Size of an embedded word."""
    state_dim: int = 256
    """Size of the state."""
    dropout: float = 0.0
    """Part of the output that is dropped in training."""
    gate: bool = True
    """Whether a gate decides how much of what was read is used."""
    min_count: int = 1
    """How often a word must occur in the training captions or translations to be in the vocabulary."""
    max_length: int = 20
    """The most words of a caption or translation, its end counted."""

    def __post_init__(self) -> None:
        require_positive(self, "decoder.", "embed_dim", "state_dim", "min_count", "max_length")
        require(0 <= self.dropout < 1, "decoder.dropout", "in [0, 1)", self.dropout)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """train: how it is learned."""

    epochs: int = 20
    """Visits to all training images or sentences."""
    batch_size: int = 128
    """Images or sentences in a step, over all processes."""
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    """The optimizer."""
    lr: float = 3e-3
    """The highest learning rate."""
    places_lr: float = 0.33
    """Learning rate of what decides where to look, as a part of that of all else."""
    schedule: Literal["one_cycle", "cosine", "linear", "constant"] = "one_cycle"
    """Up and down again; or down to 0 along a cosine or a line; or not at all."""
    warmup: float = 0.25
    """one_cycle: part of the training in which the rate rises."""
    momentum: float = 0.9
    """sgd: momentum."""
    weight_decay: float = 0.01
    """Weight decay."""
    clip: float = 5.0
    """Largest norm of the gradient."""
    limit: int | None = None
    """Stop each epoch after this many images or sentences, for a quick trial; null for all."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps ...; auto takes the best there is."""
    threads: int = 0
    """CPU threads of each process; 0 leaves it to torch."""
    log_every: int = 50
    """Steps between two rows of training losses."""
    tensorboard: bool = True
    """Whether to write TensorBoard events."""
    folder: str = "runs"
    """Where run folders are made."""

    def __post_init__(self) -> None:
        require_positive(self, "train.", "epochs", "batch_size", "lr", "places_lr", "clip", "log_every")
        require(0 < self.warmup < 1, "train.warmup", "between 0 and 1", self.warmup)
        require(0 <= self.momentum < 1, "train.momentum", "in [0, 1)", self.momentum)
        require(self.weight_decay >= 0, "train.weight_decay", "at least 0", self.weight_decay)
        require(self.limit is None or self.limit >= 1, "train.limit", "null or at least 1", self.limit)
        require(self.threads >= 0, "train.threads", "at least 0", self.threads)


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """score: how validation and test read."""

    read: Literal["hard", "soft"] | None = None
    """How to read when scoring; null: as in training. hard, with read: soft and a shrinking std, is soft-to-hard."""
    beam: int = 1
    """Captions and translations, of the test: hypotheses that are kept; 1 is greedy, as validation always is."""
    length_penalty: float = 0.0
    """With a beam: how much longer captions and translations are favoured; 0 for not at all."""
    batch_size: int = 500
    """Images or sentences at a time."""
    limit: int | None = None
    """Validate on the first so many images or sentences only; the test always takes all."""

    def __post_init__(self) -> None:
        require_positive(self, "score.", "batch_size", "beam")
        require(self.length_penalty >= 0, "score.length_penalty", "at least 0", self.length_penalty)
        require(self.limit is None or self.limit >= 1, "score.limit", "null or at least 1", self.limit)
