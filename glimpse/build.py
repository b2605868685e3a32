"""From a config to a model, its data and its task."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from glimpse.attention import Attention, LocationAttention, Read
from glimpse.captioner import Captioner, Decoder
from glimpse.captioning import Captioning
from glimpse.classification import Classification
from glimpse.classifier import GridGlimpses, PlaneGlimpses, RecurrentAttention
from glimpse.config import Config, ConfigError, DataConfig, different, images_of
from glimpse.data import DataSet, Splits, cluttered_mnist, image_folder, torchvision_data
from glimpse.data.captions import CaptionSplits
from glimpse.data.digit_captions import digit_captions
from glimpse.data.photos import coco_captions, karpathy_captions
from glimpse.encoders import BackboneEncoder, SmallEncoder
from glimpse.features import with_features
from glimpse.networks import GlimpseNetwork, RecurrentCore
from glimpse.processes import Processes
from glimpse.runs import LAST, Run, RunError, names_of
from glimpse.sensor import Sensor
from glimpse.text import Vocabulary
from glimpse.whole_image import WholeImage

Model = RecurrentAttention | WholeImage


def build_data(config: DataConfig) -> Splits | CaptionSplits:
    """Make the training, validation and test data."""
    if config.kind == "digit_captions":
        return digit_captions(
            canvas=images_of(config).canvas,
            most_digits=config.num_digits,
            num_distractors=config.num_distractors,
            distractor_size=config.distractor_size,
        )
    if config.kind in ("coco", "karpathy"):
        shared = {
            "root": Path(config.root),
            "size": images_of(config).size,
            "broken": config.broken,
            "workers": config.workers,
        }
        if config.kind == "karpathy":
            return karpathy_captions(**shared, annotations=config.annotations)
        return coco_captions(**shared, year=config.year, valid_fraction=config.valid_fraction)
    if config.kind == "cluttered":
        return cluttered_mnist(
            canvas=images_of(config).canvas,
            num_digits=config.num_digits,
            num_distractors=config.num_distractors,
            distractor_size=config.distractor_size,
            target=config.target,
        )
    shared = {
        "root": Path(config.root),
        "size": config.size,
        "channels": config.channels,
        "valid_fraction": config.valid_fraction,
        "workers": config.workers,
    }
    if config.kind == "folder":
        return image_folder(**shared, test_fraction=config.test_fraction)
    return torchvision_data(**shared, name=config.name, download=config.download)


def build_model(config: Config, data: DataSet) -> Model:
    """Make a model for the images and classes of a data set, with weights that depend on the seed alone."""
    return make_model(config, image_shape=data.image_shape, num_classes=data.num_classes)


def make_model(config: Config, *, image_shape: tuple[int, int, int], num_classes: int) -> Model:
    """Make a model, with weights that depend on the seed alone.

    Args:
        config: The settings.
        image_shape: (C, H, W) of the images; to recurrent attention, the channels alone matter.
        num_classes: Number of classes.
    """
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers are none of our business
        torch.manual_seed(config.seed)
        if config.model == "attention":
            return _recurrent_attention(config, channels=image_shape[0], num_classes=num_classes)
        return WholeImage(
            kind=config.model,
            image_shape=image_shape,
            num_classes=num_classes,
            hidden_dim=config.network.state_dim,
            conv_channels=config.network.conv_channels,
            pixel_mean=config.network.pixel_mean,
            pixel_std=config.network.pixel_std,
        )


def _recurrent_attention(config: Config, *, channels: int, num_classes: int) -> RecurrentAttention:
    sensor = Sensor(
        patch_size=config.sensor.patch_size,
        num_scales=config.sensor.num_scales,
        scale_factor=config.sensor.scale_factor,
        background=config.sensor.background,
        plan=config.sensor.plan,
    )
    network = GlimpseNetwork(
        in_channels=channels * sensor.num_scales,
        patch_size=sensor.patch_size,
        what=config.network.what,
        what_dim=config.network.what_dim,
        where_dim=config.network.where_dim,
        out_dim=config.network.glimpse_dim,
        conv_channels=config.network.conv_channels,
        conv_layers=config.network.conv_layers,
        pixel_mean=config.network.pixel_mean,
        pixel_std=config.network.pixel_std,
    )
    core = RecurrentCore(
        kind=config.network.core,
        input_dim=network.out_dim,
        state_dim=config.network.state_dim,
        learn_initial=config.attention.first == "learned",
    )
    attention = config.attention
    if attention.places == "grid":
        glimpses = GridGlimpses(
            sensor=sensor,
            network=network,
            attention=Attention(
                state_dim=core.state_dim,
                annotation_dim=network.out_dim,
                how=config.read,
                scorer=attention.scorer,
                dim=attention.scorer_dim,
            ),
            grid=attention.grid,
        )
    else:
        glimpses = PlaneGlimpses(
            sensor=sensor,
            network=network,
            attention=LocationAttention(
                state_dim=core.state_dim,
                how=config.read,
                std=attention.std,
                learn_std=attention.learn_std,
                squash=attention.squash,
            ),
        )
    return RecurrentAttention(
        glimpses=glimpses,
        core=core,
        num_classes=num_classes,
        num_glimpses=config.num_glimpses,
        first=attention.first,
        policy=attention.policy,
        baseline=config.read == "hard" and config.loss.baseline == "learned" and attention.policy == "learned",
        reward_reaches_core=config.loss.reward_reaches_core,
    )


def make_captioner(config: Config, *, channels: int, vocabulary_size: int, pretrained: bool = True) -> Captioner:
    """Make a captioner, with weights that depend on the seed alone.

    Args:
        config: The settings.
        channels: Channels of the images.
        vocabulary_size: Number of words.
        pretrained: Whether the encoder gets the weights that the config names; in vain if others will replace them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        encoder = _make_encoder(config, channels, pretrained)
        attention = Attention(
            state_dim=config.decoder.state_dim,
            annotation_dim=encoder.out_dim,
            how=config.read,
            scorer=config.attention.scorer,
            dim=config.attention.scorer_dim,
        )
        decoder = Decoder(
            attention=attention,
            vocabulary_size=vocabulary_size,
            embed_dim=config.decoder.embed_dim,
            state_dim=config.decoder.state_dim,
            annotation_dim=encoder.out_dim,
            dropout=config.decoder.dropout,
            gate=config.decoder.gate,
        )
        return Captioner(encoder=encoder, decoder=decoder)


def _make_encoder(config: Config, channels: int, pretrained: bool) -> SmallEncoder | BackboneEncoder:
    settings = config.encoder
    if settings.name == "small":
        return SmallEncoder(
            in_channels=channels,
            out_dim=settings.dim,
            channels=settings.channels,
            stride=settings.stride,
            pixel_mean=config.network.pixel_mean,
            pixel_std=config.network.pixel_std,
        )
    try:
        encoder = BackboneEncoder(name=settings.name, weights=settings.weights if pretrained else None)
    except ValueError as error:
        raise ConfigError(f"encoder: {error}") from error
    if settings.fine_tune_from is not None:
        encoder.trunk.requires_grad_(True)  # several processes must know from the beginning what will be learned
    return encoder


def keep_features(
    config: Config,
    data: CaptionSplits,
    model: Captioner,
    processes: Processes,
    say: Callable[[str], None] = print,
) -> CaptionSplits:
    """The same data with what the encoder makes of the images in place of them, if the config has a cache for it."""
    if config.encoder.cache is None:
        return data
    return with_features(
        data,
        model.encoder,
        config.encoder.cache,
        name=config.encoder.name,
        batch_size=2 if processes.device.type == "cpu" else 64,  # what lies in a CPU's cache is quicker
        say=say,
        processes=processes,
    )


def _build_captioning(config: Config, processes: Processes, begun: Run | None) -> Captioning:
    data = build_data(config.data)
    vocabulary = Vocabulary.of(data.train.vocabulary_captions(), min_count=config.decoder.min_count)
    channels, *size = data.train.image_shape
    model = make_captioner(config, channels=channels, vocabulary_size=len(vocabulary), pretrained=begun is None)
    try:
        model.encoder.grid(*size)
    except RuntimeError as error:
        raise ConfigError(f"data.size must be larger for encoder.name {config.encoder.name}, got {size}") from error
    if begun is not None:
        begun.load_weights(model, LAST)  # now, as features are kept of the encoder that it has
    elif config.init_from is not None:
        Run.open(config.init_from).load_weights(model)
    data = keep_features(config, data, model, processes)
    start = config.encoder.fine_tune_from
    return Captioning(
        model=model,
        data=data,
        vocabulary=vocabulary,
        loss=config.loss,
        score=config.score,
        max_length=config.decoder.max_length,
        unfreeze_at=None if start is None else (start - 1) / config.train.epochs,
        seed=config.seed,
        batch_size=config.train.batch_size,
        limit=config.train.limit,
        processes=processes,
    )


def build_task(config: Config, processes: Processes, begun: Run | None = None) -> Classification | Captioning:
    """Make the whole task of a run, with the initial weights of `init_from` if it is set.

    Args:
        config: The settings.
        processes: Who shares the work.
        begun: The run, if it is gone on with and has a checkpoint. What it began from may be gone, and is not needed.

    Raises:
        ConfigError: If the settings do not go together with the data or the processes.
        DataError: If the data cannot be read.
        RunError: If `init_from` cannot be used.
    """
    if config.train.batch_size % processes.world_size:
        raise ConfigError(
            f"train.batch_size must be a multiple of the {processes.world_size} processes, "
            f"got {config.train.batch_size}"
        )
    if config.model == "captioner":
        return _build_captioning(config, processes, begun)
    data = build_data(config.data)
    model = build_model(config, data.train)
    if config.init_from is not None and begun is None:
        # A soft run has no baseline, a hard one may; what the std was at the end of that run is not where this begins.
        Run.open(config.init_from).load_weights(model, optional=("baseline.",))
        if isinstance(model, RecurrentAttention) and isinstance(model.glimpses, PlaneGlimpses):
            model.glimpses.attention.set_std(config.attention.std)
    return Classification(
        model=model,
        data=data,
        attention=config.attention,
        loss=config.loss,
        score=config.score,
        seed=config.seed,
        batch_size=config.train.batch_size,
        limit=config.train.limit,
        processes=processes,
    )


class LoadedCaptioner(NamedTuple):
    """A run that writes captions."""

    run: Run
    model: Captioner
    vocabulary: Vocabulary
    image_shape: tuple[int, int, int]  # (C, H, W) of the images it was trained on


def load_captioner(folder: str | Path) -> LoadedCaptioner:
    """Open the run folder of a captioner, with its best weights and its words.

    Raises:
        RunError: If the folder is not such a run, or its checkpoint cannot be used.
    """
    run = Run.open(folder)
    if run.config.model != "captioner":
        raise RunError(f"{folder} is not the run of a captioner, but of model {run.config.model}")
    about = run.read_json("meta.json")
    try:
        channels, height, width = map(int, about["image_shape"])
        vocabulary = Vocabulary(about["words"])
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise RunError(f"{run.folder / 'meta.json'} is broken: {error!r}") from error
    model = make_captioner(run.config, channels=channels, vocabulary_size=len(vocabulary), pretrained=False)
    run.load_weights(model)
    return LoadedCaptioner(run, model.eval(), vocabulary, (channels, height, width))


def load(folder: str | Path) -> Model | LoadedCaptioner:
    """Load a trained model, with its best weights and ready to look.

        model = glimpse.load("cluttered60-hard")
        answers = model(images, sample=False).logits[:, -1].argmax(-1)  # images: (B, 1, 60, 60), 8-bit or float

    Args:
        folder: A run folder, or the name of a model that ships with the package (`glimpse.shipped_models()`).

    Returns:
        The model itself of a classifier; of a captioner a `LoadedCaptioner`, which has the words beside the model.

    Raises:
        RunError: If there is no such run, or its checkpoint cannot be used.
    """
    run = Run.open(folder)
    return load_captioner(folder) if run.config.model == "captioner" else _load_model(run)[0]


class Loaded(NamedTuple):
    """A run, ready to be compared with others."""

    run: Run
    name: str  # that no other of them has
    model: Model
    how: Read | None  # how it reads when scored; None if it sees the whole image


def load_runs(folders: Sequence[str | Path]) -> tuple[list[Loaded], Splits]:
    """Open run folders that are to be scored on the very same images.

    Raises:
        RunError: If a folder is not a run, or is given twice, or its checkpoint cannot be used; or if the data has
            changed, or is not the same for all.
        DataError: If the data cannot be read.
    """
    if not folders:
        raise RunError("there must be at least one run folder, got none")
    runs = [Run.open(folder) for folder in folders]
    if captioners := [run for run in runs if run.config.model == "captioner"]:
        raise RunError(f"{captioners[0]} writes captions: it can be scored and shown, but not compared")
    check_given_once(runs)
    check_same_images({str(run): run.config for run in runs})
    data = build_data(runs[0].config.data)
    loaded = []
    for run, name in zip(runs, names_of(runs), strict=True):
        config = run.config
        how = (config.score.read or config.read) if config.model == "attention" else None
        loaded.append(Loaded(run, name, _load_model_for(run, data), how))
    return loaded, data


def check_given_once(runs: Sequence[Run]) -> None:
    """Refuse a run that is among others twice; raises RunError."""
    if twice := [run for run in runs if sum(run.folder.samefile(other.folder) for other in runs) > 1]:
        raise RunError(f"each run must be given once, got {twice[0]} more often")


def check_same_images(configs: dict[str, Config]) -> None:
    """Refuse configs, by name, whose data are not the same images; raises RunError."""
    (first, reference), *others = configs.items()
    for name, config in others:
        differ = [
            f"{key} {one} and {other}"
            for key, one, other in different(images_of(reference.data), images_of(config.data), "data.")
        ]
        if differ:
            raise RunError(
                f"{first} and {name} cannot be compared: they do not have the same images ({'; '.join(differ)})"
            )


def _load_model_for(run: Run, data: Splits) -> Model:
    """Load the best weights of a run, if the data is what it was trained on."""
    model, image_shape, class_names = _load_model(run)
    if (image_shape, class_names) != (list(data.test.image_shape), list(data.test.class_names)):
        raise RunError(
            f"the data of {run} is not what it was trained on: images of {image_shape} and "
            f"{len(class_names)} classes then, {list(data.test.image_shape)} and {data.test.num_classes} now"
        )
    return model


def _load_model(run: Run) -> tuple[Model, list[int], list[str]]:
    about = run.read_json("meta.json")
    try:
        image_shape, class_names = list(about["image_shape"]), list(about["class_names"])
        model = make_model(run.config, image_shape=tuple(image_shape), num_classes=len(class_names))
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise RunError(f"{run.folder / 'meta.json'} is broken: {error!r}") from error
    run.load_weights(model)
    return model.eval(), image_shape, class_names
