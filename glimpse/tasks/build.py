"""From a config to a model, its data and its task."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from glimpse.attention import Attention, LocationAttention
from glimpse.captioner import Captioner, Decoder, Teller
from glimpse.captioning import Captioning
from glimpse.classification import Classification
from glimpse.classifier import RecurrentAttention
from glimpse.config import TRANSLATED, Config, DataConfig, images_of, require_annotations
from glimpse.data import DataSet, Splits, cluttered_mnist, image_folder, torchvision_data
from glimpse.data.captions import CaptionSplits
from glimpse.data.dates import Dates, dates
from glimpse.data.digit_captions import digit_captions, least_pixels
from glimpse.data.digit_grammar import MOST_DIGITS
from glimpse.data.parallel import RAW, TOKENISED, parallel_files, tab_separated
from glimpse.data.photos import coco_captions, karpathy_captions
from glimpse.data.translation import Script, TranslationSplits
from glimpse.encoders import BackboneEncoder, SmallEncoder
from glimpse.features import with_features
from glimpse.glimpses import GridGlimpses, PlaneGlimpses
from glimpse.networks import GlimpseNetwork, RecurrentCore
from glimpse.processes import Processes
from glimpse.runs import LAST, Run, RunError
from glimpse.self_attention import Mixer
from glimpse.sensor import Sensor
from glimpse.sentences import SentenceEncoder, Translator
from glimpse.settings import ConfigError, require
from glimpse.text import Vocabulary
from glimpse.thought import Recall
from glimpse.translation import Translating
from glimpse.whole_image import WholeImage

Model = RecurrentAttention | WholeImage


def build_data(config: DataConfig) -> Splits | CaptionSplits | TranslationSplits:
    """Make the training, validation and test data."""
    if config.kind in TRANSLATED:
        return _build_translations(config)
    if config.kind == "digit_captions":
        canvas, least = images_of(config).canvas, least_pixels(config.num_digits)
        require(config.num_digits <= MOST_DIGITS, "data.num_digits", f"at most {MOST_DIGITS}", config.num_digits)
        pixels = f"of at least {least} pixels, so that {config.num_digits} digits find room"
        require(math.prod(canvas) >= least, "data.canvas", pixels, list(canvas))
        return digit_captions(
            canvas=canvas,
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


def _build_translations(config: DataConfig) -> TranslationSplits:
    if config.kind == "dates":
        return dates()
    if config.tsv is not None:
        return tab_separated(
            path=Path(config.root, config.tsv),
            valid_fraction=config.valid_fraction,
            test_fraction=config.test_fraction,
        )
    return parallel_files(
        root=config.root,
        train_file=config.train_file,
        valid_file=config.valid_file,
        test_file=config.test_file,
        source_language=config.source_language,
        target_language=config.target_language,
    )


def script_of(config: DataConfig) -> Script:
    """How texts of the user's become words of such data, which need not be there."""
    if config.kind == "dates":
        return Dates.script
    return TOKENISED if config.tsv is None else RAW


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
            attention=_make_attention(config, state_dim=core.state_dim, annotation_dim=network.out_dim, axes=2),
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
                clip=attention.clip,
            ),
        )
    recall = None
    if config.network.readout == "attend":
        recall = Recall(state_dim=core.state_dim, scorer=attention.scorer, dim=attention.scorer_dim)
    return RecurrentAttention(
        glimpses=glimpses,
        core=core,
        num_classes=num_classes,
        num_glimpses=config.num_glimpses,
        first=attention.first,
        policy=attention.policy,
        baseline=config.read == "hard" and config.loss.baseline == "learned" and attention.policy == "learned",
        reward_reaches_core=config.loss.reward_reaches_core,
        recall=recall,
        halt=config.network.halt,
    )


def _make_attention(config: Config, *, state_dim: int, annotation_dim: int, axes: int) -> Attention:
    return Attention(
        state_dim=state_dim,
        annotation_dim=annotation_dim,
        how=config.read,
        scorer=config.attention.scorer,
        dim=config.attention.scorer_dim,
        window=config.attention.window,
        axes=axes,
    )


def make_captioner(
    config: Config, *, image_shape: tuple[int, int, int], vocabulary_size: int, pretrained: bool = True
) -> Captioner:
    """Make a captioner, with weights that depend on the seed alone.

    Args:
        config: The settings.
        image_shape: (C, H, W) of the images.
        vocabulary_size: Number of words.
        pretrained: Whether the encoder gets the weights that the config names; in vain if others will replace them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        encoder = _make_encoder(config, image_shape[0], pretrained)
        decoder = _make_decoder(config, encoder.out_dim, vocabulary_size, axes=2)
        mixer = _make_mixer(config, encoder.out_dim)
        return Captioner(encoder=encoder, decoder=decoder, mixer=mixer, image_size=image_shape[1:])


def make_translator(config: Config, *, source_size: int, vocabulary_size: int) -> Translator:
    """Make a translator, with weights that depend on the seed alone.

    Args:
        config: The settings.
        source_size: Number of words to translate from.
        vocabulary_size: Number of words to translate into.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        encoder = SentenceEncoder(
            vocabulary_size=source_size,
            embed_dim=config.encoder.embed_dim,
            out_dim=config.encoder.dim,
            dropout=config.encoder.dropout,
            whole=config.attention.places == "none",
        )
        decoder = _make_decoder(config, encoder.out_dim, vocabulary_size, axes=1)
        return Translator(encoder=encoder, decoder=decoder, mixer=_make_mixer(config, encoder.out_dim))


def _make_decoder(config: Config, annotation_dim: int, vocabulary_size: int, *, axes: int) -> Decoder:
    """Make what reads annotations of a size, in a row or (`axes` 2) on a grid, and writes."""
    require_annotations(config, annotation_dim)
    state_dim = config.decoder.state_dim
    return Decoder(
        attention=_make_attention(config, state_dim=state_dim, annotation_dim=annotation_dim, axes=axes),
        vocabulary_size=vocabulary_size,
        embed_dim=config.decoder.embed_dim,
        state_dim=state_dim,
        annotation_dim=annotation_dim,
        dropout=config.decoder.dropout,
        gate=config.decoder.gate,
    )


def _make_mixer(config: Config, annotation_dim: int) -> Mixer | None:
    """Make what lets annotations of a size look at each other, if anything does."""
    layers = config.encoder.self_attention
    return Mixer(dim=annotation_dim, heads=config.encoder.heads, num_layers=layers) if layers else None


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
    image_shape = data.train.image_shape
    fresh = begun is None and config.init_from is None  # else the weights of the encoder come with all others
    model = make_captioner(config, image_shape=image_shape, vocabulary_size=len(vocabulary), pretrained=fresh)
    try:
        model.encoder.grid(*image_shape[1:])
    except RuntimeError as error:
        raise ConfigError(
            f"data.size must be larger for encoder.name {config.encoder.name}, got {list(image_shape[1:])}"
        ) from error
    if begun is not None:
        begun.load_weights(model, LAST)  # now, as features are kept of the encoder that it has
    elif config.init_from is not None:
        _init_from(config.init_from, model, words=vocabulary)
    data = keep_features(config, data, model, processes)
    start = config.encoder.fine_tune_from
    return Captioning(
        model=model,
        data=data,
        vocabulary=vocabulary,
        max_length=config.decoder.max_length,
        unfreeze_at=None if start is None else (start - 1) / config.train.epochs,
        **_of_any_task(config, processes),
    )


def _init_from(name: str, model: Teller, **vocabularies: Vocabulary) -> None:
    """Take over the weights of a run whose words are the same: each row of an embedding is about one of them."""
    run = Run.open(name)
    run.load_weights(model)
    about = run.read_json("meta.json")
    for key, vocabulary in vocabularies.items():
        if list(vocabulary.words) != about[key]:
            new = [word for word in vocabulary.words if word not in about[key]]
            which = f"not {', '.join(new[:5])}" if new else "they are in another order"
            raise RunError(f"init_from {name} knows as many words as there are in the data, but others: {which}")


def _build_translating(config: Config, processes: Processes, begun: Run | None) -> Translating:
    data = build_data(config.data)
    pairs = list(data.train.vocabulary_pairs())
    source = Vocabulary.of((pair.source for pair in pairs), min_count=config.encoder.min_count)
    target = Vocabulary.of((pair.references[0] for pair in pairs), min_count=config.decoder.min_count)
    model = make_translator(config, source_size=len(source), vocabulary_size=len(target))
    if config.init_from is not None and begun is None:
        _init_from(config.init_from, model, source_words=source, words=target)
    return Translating(
        model=model,
        data=data,
        source_vocabulary=source,
        vocabulary=target,
        max_length=config.decoder.max_length,
        **_of_any_task(config, processes),
    )


def _of_any_task(config: Config, processes: Processes) -> dict[str, Any]:
    """What every task is told."""
    return {
        "loss": config.loss,
        "score": config.score,
        "seed": config.seed,
        "batch_size": config.train.batch_size,
        "limit": config.train.limit,
        "processes": processes,
    }


def build_task(
    config: Config, processes: Processes, begun: Run | None = None
) -> Classification | Captioning | Translating:
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
    if config.model == "translator":
        return _build_translating(config, processes, begun)
    data = build_data(config.data)
    model = build_model(config, data.train)
    if config.init_from is not None and begun is None:
        # A soft run has no baseline, a hard one may, and either a halting unit; what the std was at the end of that run
        # is not where this begins.
        Run.open(config.init_from).load_weights(model, optional=("baseline.", "halt."))
        if isinstance(model, RecurrentAttention) and isinstance(model.glimpses, PlaneGlimpses):
            model.glimpses.attention.set_std(config.attention.std)
    return Classification(model=model, data=data, attention=config.attention, **_of_any_task(config, processes))
