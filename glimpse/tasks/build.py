"""From a config to a model and its data."""

from typing import Any

import torch

from glimpse.data import Dataset
from glimpse.data.settings import DataSettings
from glimpse.models.encoder_decoder import Captioner, Translator
from glimpse.models.glimpses import GLIMPSES
from glimpse.models.recurrent_attention import FixedPolicy, LearnedPolicy, RecurrentAttention
from glimpse.models.whole_image import WholeImage
from glimpse.tasks.settings import CaptioningConfig, ClassificationConfig, RecurrentAttentionConfig, TranslationConfig

Classifier = RecurrentAttention | WholeImage


def build_data(settings: DataSettings) -> Any:
    """Make the training, validation and test split of the data that settings describe."""
    return settings.build()


def build_model(config: ClassificationConfig, data: Dataset) -> Classifier:
    """Make a model for the images and classes of a data set, with weights that depend on the seed alone."""
    return make_model(config, image_shape=data.image_shape, num_classes=data.num_classes)


def make_model(config: ClassificationConfig, *, image_shape: tuple[int, int, int], num_classes: int) -> Classifier:
    """Make a classifier, with weights that depend on the seed alone.

    Args:
        config: The settings.
        image_shape: (C, H, W) of the images; to recurrent attention, the channels alone matter.
        num_classes: Number of classes.
    """
    with torch.random.fork_rng(devices=[]):  # leaves the caller's random numbers alone
        torch.manual_seed(config.seed)
        return config.build_model(image_shape, num_classes)


def recurrent_attention(config: RecurrentAttentionConfig, channels: int, num_classes: int) -> RecurrentAttention:
    """Make a recurrent attention model; the order in which its parts are made decides their initial weights."""
    attention, estimator = config.attention, config.estimator
    sensor = config.sensor.build()
    network = config.network.build_network(in_channels=channels * sensor.num_scales, patch_size=sensor.patch_size)
    first = attention.first_rule
    core = config.network.build_core(learn_initial=first is None)
    glimpses = GLIMPSES[attention.kind](
        sensor=sensor,
        network=network,
        attention=attention.build(state_dim=core.state_dim, annotation_dim=network.out_dim, read=config.read),
        **attention.glimpse_options(),
    )
    placed = None if first is None else FixedPolicy(first, glimpses)
    policy = placed
    if attention.learned:
        policy = LearnedPolicy(glimpses.attention, placed, detach_state=estimator.detaches_state)
    return RecurrentAttention(
        glimpses=glimpses,
        core=core,
        recall=config.network.build_memory(),
        num_classes=num_classes,
        num_glimpses=config.num_glimpses,
        policy=policy,
        baseline=config.read == "hard" and attention.learned and estimator.needs_values,
        halt=config.network.halting_unit,
        average_reward=config.read == "hard" and estimator.needs_running_mean,
    )


def make_captioner(
    config: CaptioningConfig, *, image_shape: tuple[int, int, int], vocabulary_size: int, pretrained: bool = True
) -> Captioner:
    """Make a captioner, with weights that depend on the seed alone.

    Args:
        config: The settings.
        image_shape: (C, H, W) of the images.
        vocabulary_size: Number of words.
        pretrained: Whether the encoder gets the weights that the config names; not needed if others will replace them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        encoder = config.encoder.build(channels=image_shape[0], pretrained=pretrained)
        parts = _decoder_and_self_attention(config, encoder.out_dim, vocabulary_size, axes=2)
        return Captioner(encoder=encoder, **parts, image_size=image_shape[1:])


def make_translator(config: TranslationConfig, *, source_size: int, vocabulary_size: int) -> Translator:
    """Make a translator, with weights that depend on the seed alone.

    Args:
        config: The settings.
        source_size: Number of words to translate from.
        vocabulary_size: Number of words to translate into.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        encoder = config.encoder.build(vocabulary_size=source_size, whole=not config.attention.has_choice)
        parts = _decoder_and_self_attention(config, encoder.out_dim, vocabulary_size, axes=1)
        return Translator(encoder=encoder, **parts)


def _decoder_and_self_attention(
    config: CaptioningConfig | TranslationConfig, annotation_dim: int, vocabulary_size: int, *, axes: int
) -> dict[str, Any]:
    """Make what reads annotations of a size, in a row or (`axes` 2) on a grid, and writes."""
    config.check_annotations(annotation_dim)
    attention = config.attention.build(
        state_dim=config.decoder.state_dim, annotation_dim=annotation_dim, read=config.read, axes=axes
    )
    decoder = config.decoder.build(attention=attention, annotation_dim=annotation_dim, vocabulary_size=vocabulary_size)
    return {"decoder": decoder, "mixer": config.encoder.build_self_attention(annotation_dim)}
