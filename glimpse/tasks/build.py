"""Build models and data from configs."""

from typing import Any

import torch

from glimpse.data import Dataset
from glimpse.data.settings import DataSettings
from glimpse.evaluation.classify import Classifier
from glimpse.models.encoder_decoder import Captioner, Translator
from glimpse.models.glimpses import GLIMPSES
from glimpse.models.recurrent_attention import FixedPolicy, LearnedPolicy, RecurrentAttention
from glimpse.tasks.settings import CaptioningConfig, ClassificationConfig, RecurrentAttentionConfig, TranslationConfig


def build_data(settings: DataSettings) -> Any:
    """Build the training, validation and test splits that the settings describe."""
    return settings.build()


def build_model(config: ClassificationConfig, data: Dataset) -> Classifier:
    """Build a classifier for the images and classes of a data set; its initial weights depend on the seed alone."""
    return make_model(config, image_shape=data.image_shape, num_classes=data.num_classes)


def make_model(config: ClassificationConfig, *, image_shape: tuple[int, int, int], num_classes: int) -> Classifier:
    """Build a classifier; its initial weights depend on the seed alone.

    Args:
        config: The settings.
        image_shape: (C, H, W) of the images; recurrent attention uses the channels only.
        num_classes: Number of classes.
    """
    with torch.random.fork_rng(devices=[]):  # does not change the caller's random state
        torch.manual_seed(config.seed)
        return config.build_model(image_shape, num_classes)


def recurrent_attention(config: RecurrentAttentionConfig, channels: int, num_classes: int) -> RecurrentAttention:
    """Build a recurrent attention model; the order in which its parts are built decides their initial weights."""
    attention, estimator = config.attention, config.estimator
    sensor = config.sensor.build()
    network = config.network.build_network(
        in_channels=channels * sensor.num_scales, patch_size=sensor.patch_size, location_dim=attention.location_dim
    )
    first = attention.first_rule
    core = config.network.build_core(learn_initial=first is None)
    glimpses = GLIMPSES[attention.kind](
        sensor=sensor,
        network=network,
        attention=attention.build(state_dim=core.state_dim, annotation_dim=network.out_dim, read=config.read),
        **attention.glimpse_options(),
    )
    placed = None if first is None else FixedPolicy(first, glimpses)
    policy: LearnedPolicy | FixedPolicy | None = placed
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
    """Build a captioner; its initial weights depend on the seed alone.

    Args:
        config: The settings.
        image_shape: (C, H, W) of the images.
        vocabulary_size: Vocabulary size.
        pretrained: Whether to load the pretrained encoder weights that the config names; False if a checkpoint
            replaces them anyway.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        encoder = config.encoder.build(channels=image_shape[0], pretrained=pretrained)
        parts = _decoder_and_self_attention(config, encoder.out_dim, vocabulary_size, axes=2)
        return Captioner(encoder=encoder, **parts, image_size=image_shape[1:])


def make_translator(config: TranslationConfig, *, source_size: int, vocabulary_size: int) -> Translator:
    """Build a translator; its initial weights depend on the seed alone.

    Args:
        config: The settings.
        source_size: Size of the source vocabulary.
        vocabulary_size: Size of the target vocabulary.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        encoder = config.encoder.build(vocabulary_size=source_size, whole=not config.attention.has_choice)
        parts = _decoder_and_self_attention(config, encoder.out_dim, vocabulary_size, axes=1)
        return Translator(encoder=encoder, **parts)


def _decoder_and_self_attention(
    config: CaptioningConfig | TranslationConfig, annotation_dim: int, vocabulary_size: int, *, axes: int
) -> dict[str, Any]:
    """Build the decoder and the self-attention for annotations on a line (`axes` 1) or a grid (`axes` 2)."""
    config.check_annotations(annotation_dim)
    attention = config.attention.build(
        state_dim=config.decoder.state_dim, annotation_dim=annotation_dim, read=config.read, axes=axes
    )
    decoder = config.decoder.build(attention=attention, annotation_dim=annotation_dim, vocabulary_size=vocabulary_size)
    return {"decoder": decoder, "mixer": config.encoder.build_self_attention(annotation_dim)}
