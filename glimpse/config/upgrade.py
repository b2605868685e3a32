"""Compatibility: old names and values of settings, and config.yaml files of format 1.

Old names stay valid in config files and on command lines. The config.yaml of a run holds every setting; one of format 1
(without a format number) holds the settings of all models and kinds, and may lack settings that were added later.
"""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A setting from a config file or a command line."""

    key: str  # dotted name
    value: Any
    source: str  # "configs/x.yaml, line 3"; empty for the command line
    old_key: str | None = None  # the name in the source, if that name or the value is an old one
    resolved: bool = False  # whether the source holds all settings, including those without effect

    @property
    def prefix(self) -> str:
        """The start of an error message about the setting."""
        return f"{self.source}: " if self.source else ""

    @property
    def suffix(self) -> str:
        """The end of an error message about the setting."""
        return f" (given as {self.old_key})" if self.old_key not in (None, self.key) else ""


ALIASES = {
    "attention.places": "attention.kind",
    "attention.squash": "attention.tanh_mean",
    "attention.clip": "attention.max_grad_norm",
    "attention.std_end": "attention.std_final",
    "attention.std_until": "attention.std_anneal",
    "loss.classify": "loss.cross_entropy_at",
    "loss.reinforce": "estimator.weight",
    "loss.reward": "estimator.reward",
    "loss.reward_when": "estimator.reward_at",
    "loss.discount": "estimator.discount",
    "loss.baseline": "estimator.baseline",
    "loss.baseline_weight": "estimator.baseline_weight",
    "loss.rollouts": "estimator.samples",
    "loss.normalise": "estimator.normalize",
    "loss.entropy": "estimator.entropy_weight",
    "loss.reward_reaches_core": "estimator.backprop_to_state",
    "loss.mix": "estimator.soft_fraction",
    "loss.mix_end": "estimator.soft_fraction_final",
    "loss.mix_until": "estimator.soft_fraction_anneal",
    "train.places_lr": "train.attention_lr_mult",
    "train.clip": "train.max_grad_norm",
    "train.warmup": "train.warmup_fraction",
    "train.folder": "train.runs_dir",
    "network.halt": "network.halting_unit",
    "encoder.fine_tune_from": "encoder.unfreeze_epoch",
    "encoder.cache": "encoder.feature_cache",
    "encoder.self_attention": "encoder.self_attention_layers",
    "encoder.heads": "encoder.num_heads",
    "score.beam": "score.beam_width",
    "data.broken": "data.on_broken_image",
}
"""Old name -> new name, for all models and kinds."""

VALUES: dict[str, dict[Any, Any]] = {
    "model": {"attention": "recurrent_attention", "fc": "mlp"},
    "attention.kind": {"none": "final_state"},
    "attention.first": {"centre": "center"},
    "attention.policy": {"centre": "center"},
    "network.readout": {"attend": "state_memory"},
    "loss.cross_entropy_at": {"each": "every_step", "last": "last_step"},
    "estimator.reward_at": {"each": "every_step", "last": "last_step"},
}
"""New name -> old value -> new value."""

DROPPED = {"sensor.plan": "it changes the speed only, and is chosen by the sensor"}
"""Settings that were removed, with the reason why they can be ignored."""

V1_DEFAULTS: dict[str, Any] = {
    "seed": 0,
    "model": "attention",
    "read": "hard",
    "num_glimpses": 6,
    "init_from": None,
    "data.kind": "cluttered",
    "data.canvas": 60,
    "data.num_digits": 1,
    "data.num_distractors": 4,
    "data.distractor_size": 8,
    "data.target": "label",
    "data.name": "CIFAR10",
    "data.root": "data",
    "data.annotations": "dataset_coco.json",
    "data.year": 2017,
    "data.broken": "error",
    "data.size": None,
    "data.channels": None,
    "data.download": False,
    "data.valid_fraction": 0.1,
    "data.test_fraction": 0.1,
    "data.source_language": "en",
    "data.target_language": "de",
    "data.train_file": "train",
    "data.valid_file": "val",
    "data.test_file": "test",
    "data.tsv": None,
    "data.workers": 0,
    "sensor.patch_size": 12,
    "sensor.num_scales": 3,
    "sensor.scale_factor": 2,
    "sensor.background": 0.0,
    "sensor.plan": "auto",
    "network.what": "conv",
    "network.what_dim": 128,
    "network.where_dim": 128,
    "network.glimpse_dim": 256,
    "network.conv_channels": 32,
    "network.conv_layers": 4,
    "network.core": "gru",
    "network.state_dim": 256,
    "network.readout": "last",
    "network.halt": False,
    "network.pixel_mean": 0.0,
    "network.pixel_std": 1.0,
    "attention.places": "plane",
    "attention.policy": "learned",
    "attention.first": "centre",
    "attention.std": 0.2,
    "attention.std_end": 0.05,
    "attention.std_until": 0.8,
    "attention.learn_std": False,
    "attention.squash": True,
    "attention.clip": 0.5,
    "attention.grid": (5, 5),
    "attention.scorer": "additive",
    "attention.scorer_dim": 128,
    "attention.window": None,
    "loss.classify": "each",
    "loss.glimpse_cost": 0.01,
    "loss.reinforce": 0.03,
    "loss.reward": "log_likelihood",
    "loss.reward_when": "each",
    "loss.discount": 0.0,
    "loss.baseline": "learned",
    "loss.rollouts": 1,
    "loss.normalise": True,
    "loss.baseline_weight": 1.0,
    "loss.entropy": 0.0,
    "loss.reward_reaches_core": True,
    "loss.doubly_stochastic": 0.0,
    "loss.mix": 0.0,
    "loss.mix_end": None,
    "loss.mix_until": 1.0,
    "encoder.name": "small",
    "encoder.dim": 128,
    "encoder.embed_dim": 128,
    "encoder.dropout": 0.0,
    "encoder.min_count": 1,
    "encoder.channels": 16,
    "encoder.stride": 12,
    "encoder.weights": "default",
    "encoder.fine_tune_from": None,
    "encoder.cache": None,
    "encoder.self_attention": 0,
    "encoder.heads": 4,
    "decoder.embed_dim": 128,
    "decoder.state_dim": 256,
    "decoder.dropout": 0.0,
    "decoder.gate": True,
    "decoder.min_count": 1,
    "decoder.max_length": 20,
    "train.epochs": 20,
    "train.batch_size": 128,
    "train.optimizer": "adamw",
    "train.lr": 0.003,
    "train.places_lr": 0.33,
    "train.schedule": "one_cycle",
    "train.warmup": 0.25,
    "train.momentum": 0.9,
    "train.weight_decay": 0.01,
    "train.clip": 5.0,
    "train.limit": None,
    "train.device": "auto",
    "train.threads": 0,
    "train.log_every": 50,
    "train.tensorboard": True,
    "train.folder": "runs",
    "score.read": None,
    "score.beam": 1,
    "score.length_penalty": 0.0,
    "score.batch_size": 500,
    "score.limit": None,
}
"""The values of settings that are missing in a resolved config of format 1."""

V1_ABSENT: dict[str, Any] = {
    "attention.clip": None,  # soft reads were not clipped before the setting was added
}
"""Exceptions to `V1_DEFAULTS`: settings that switch off a feature which did not exist when such a file was written."""

V1_WITHOUT_EFFECT = (
    *("loss.normalise", "loss.rollouts", "loss.reward", "loss.reward_when", "loss.baseline_weight"),
    "loss.reward_reaches_core",
)
"""Settings whose old names had no effect on captioners and translators; the new names do."""

_SECTIONS = {"seed", "model", "read", "data", "sensor", "network", "attention", "loss", "train", "score"}


def is_resolved_v1(keys: Iterable[str]) -> bool:
    """Whether a file with these settings is the config.yaml of a run of format 1."""
    sections = {key.partition(".")[0] for key in keys}
    return "format" not in sections and sections >= _SECTIONS


def complete_v1(entries: list[Entry], source: str) -> list[Entry]:
    """Add the missing settings to a resolved config of format 1, with the values they had when it was written."""
    given = {entry.key for entry in entries}
    missing = {key: value for key, value in {**V1_DEFAULTS, **V1_ABSENT}.items() if key not in given}
    completed = [*(Entry(key, value, source) for key, value in missing.items()), *entries]
    return [replace(entry, resolved=True) for entry in completed]


def rename(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Replace old names and values that mean the same for all models and kinds."""
    for entry in entries:
        key = ALIASES.get(entry.key, entry.key)
        value, values = entry.value, VALUES.get(key, {})
        if isinstance(value, str) and value in values:
            value = values[value]
        old_key = entry.key if (key, value) != (entry.key, entry.value) else None
        yield replace(entry, key=key, value=value, old_key=old_key)


def rename_by_kind(entries: list[Entry], model: str, kinds: dict[str, Any]) -> list[Entry]:
    """Replace old names whose meaning depends on the model and on the kinds of its groups.

    Args:
        entries: The result of `rename`.
        model: The model.
        kinds: The kinds of groups that the entries select, see `kinds_of`.
    """
    renamed = []
    old_readout = any(entry.old_key == "network.readout" for entry in entries)
    memory = any(entry.key == "network.readout" and entry.value == "state_memory" for entry in entries)
    for entry in entries:
        key, value = entry.key, entry.value
        if model in ("captioner", "translator") and entry.old_key in V1_WITHOUT_EFFECT:
            if not entry.resolved:
                warnings.warn(
                    f"{entry.prefix}{entry.old_key} is ignored: it has never had an effect on model {model}; set {key}",
                    stacklevel=4,
                )
            continue
        if model == "captioner":
            if entry.old_key == "attention.places" and value in ("plane", "grid"):
                entry = replace(entry, value="feature_map")
            elif key in ("network.pixel_mean", "network.pixel_std") and kinds.get("encoder") in (None, "small"):
                entry = replace(entry, key=key.replace("network", "encoder"), old_key=key)
            elif key == "encoder.name" and value == "small":
                entry = replace(entry, key="encoder.kind", old_key=key)
        if model == "captioner" and key == "data.num_digits" and kinds.get("data") in (None, "digit_captions"):
            entry = replace(entry, key="data.max_digits", old_key=key)
        if model == "recurrent_attention" and memory and key in ("attention.scorer", "attention.scorer_dim"):
            # The memory of states used the attention's scorer; on the plane nothing else has a scorer.
            on_grid = kinds.get("attention") == "grid"
            if old_readout or not on_grid:
                renamed.append(replace(entry, key=key.replace("attention.", "network.memory_"), old_key=key))
            if not on_grid:
                continue
        renamed.append(entry)
    return renamed


def kinds_of(entries: Iterable[Entry], model: str) -> dict[str, Any]:
    """The kinds of groups that settings select, by `kind` itself or by an old setting that implies it."""
    kinds: dict[str, Any] = {}
    implied: dict[str, Any] = {}
    for entry in entries:
        group, _, name = entry.key.partition(".")
        if name == "kind":
            old_places = (
                model == "captioner" and entry.old_key == "attention.places" and entry.value in ("plane", "grid")
            )
            kinds[group] = "feature_map" if old_places else entry.value
        elif entry.key == "encoder.name" and model == "captioner":
            if entry.value == "small":
                kinds[group] = "small"
            else:
                implied[group] = "backbone"
    return {**implied, **kinds}
