"""Comparison of tensors, gradients by parameter name, and tiny models and data."""

import torch

from glimpse.data import Batch, Dataset, Splits
from glimpse.distributed import Processes
from glimpse.tasks.build import build_model, make_model
from glimpse.tasks.classification import ClassificationTask
from glimpse.tasks.settings import load_config

ALONE = Processes(0, 1, torch.device("cpu"))

# Every setting that a test relies on is set here or by the test, as the defaults may change.
TINY = (
    "--read=hard",
    "--num_glimpses=3",
    "--sensor.patch_size=4",
    "--sensor.num_scales=2",
    "--network.what=fc",
    "--network.core=gru",
    "--network.what_dim=8",
    "--network.where_dim=8",
    "--network.glimpse_dim=12",
    "--network.state_dim=10",
    "--network.conv_channels=4",
    "--attention.places=plane",
    "--attention.first=centre",
    "--attention.std=0.1",
    "--attention.std_end=null",
    "--attention.learn_std=false",
    "--attention.grid=[2, 3]",
    "--attention.scorer=additive",
    "--attention.scorer_dim=6",
    "--attention.window=null",
    "--loss.classify=each",
    "--loss.reward=accuracy",
    "--loss.reward_when=each",
    "--loss.discount=1.0",
    "--loss.baseline=learned",
    "--loss.rollouts=1",
    "--loss.normalise=true",
    "--loss.entropy=0.0",
    "--loss.reward_reaches_core=true",
    "--train.batch_size=4",
    "--score.batch_size=4",
)


def assert_close(actual, expected, atol=1e-6):
    """Assert that all elements differ by at most `atol`, without comparing dtypes."""
    torch.testing.assert_close(actual, torch.as_tensor(expected), rtol=0, atol=atol, check_dtype=False)


def draw(*shape, seed=0, dtype=torch.float32):
    """Uniform random numbers that depend only on the seed."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def draw_bytes(*shape, seed=0):
    """Random uint8 images."""
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def reached(loss, module):
    """Names of the parameters that the gradient of a loss reaches."""
    named = dict(module.named_parameters())
    if not loss.requires_grad or not named:
        return set()
    gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True, retain_graph=True)
    return {name for name, gradient in zip(named, gradients, strict=True) if gradient is not None}


def sum_of_hard_contexts(attention, memory):
    """The sum over places of the context of a hard read, weighted by the probability of the place (B, A)."""
    total = torch.zeros_like(memory.values[:, 0])
    for place in range(memory.values.shape[1]):
        places = torch.full((len(total),), place)
        total = total + attention.log_prob(places).exp().unsqueeze(1) * memory.at(places)
    return total


def under(module, *prefixes):
    """Names of the parameters that begin with one of the prefixes."""
    return {name for name, _ in module.named_parameters() if name.startswith(prefixes)}


def applicable(tiny, given):
    """Those settings of a tiny run that exist for the given model and attention."""
    model = str(given.get("model", "attention"))
    kind = str(given.get("attention.places", given.get("attention.kind", "plane")))
    memory = str(given.get("network.readout", "last")) in ("attend", "state_memory")
    if model in ("cnn", "fc", "mlp"):
        groups = ("read", "num_glimpses", "sensor.", "attention.", "loss.", "estimator.", "score.read")
        idle = (*groups, "network.w", "network.g", "network.core", "network.conv_layers")
        idle = idle if model == "cnn" else (*idle, "network.conv_channels")
    elif kind == "grid":
        idle = ("attention.std", "attention.learn_std", "attention.squash", "attention.clip")
    else:
        idle = (
            ("attention.grid", "attention.window")
            if memory
            else ("attention.grid", "attention.window", "attention.scorer")
        )
    if given.get("sensor.kind") == "foveated":
        idle = (*idle, "sensor.num_scales", "sensor.scale_factor")
    if given.get("data.kind", "cluttered") != "cluttered":
        idle = (*idle, "data.canvas", "data.num_d", "data.distractor_size", "data.target")
    return {key: value for key, value in tiny.items() if not key.startswith(idle)}


def tiny_config(*options):
    """The config of a tiny model with some settings changed, such as "--estimator.samples=2".

    Settings that exist only for another kind of attention or model are left out, as tests loop over kinds.
    """
    given = dict(option.removeprefix("--").split("=") for option in [*TINY, *options])
    return load_config([f"--{key}={value}" for key, value in applicable(given, given).items()])


def tiny_model(*options, image_shape=(1, 12, 14), num_classes=3):
    """A tiny model whose weights depend only on its config."""
    return make_model(tiny_config(*options), image_shape=image_shape, num_classes=num_classes)


class TinyData(Dataset):
    """A few images in memory, visited in order."""

    def __init__(self, images, targets, boxes=None, *, num_classes=3):
        self.images, self.targets = images, targets
        self.boxes = torch.zeros(len(images), 0, 4) if boxes is None else boxes
        self.num_classes = num_classes
        self.class_names = tuple(str(index) for index in range(num_classes))
        self.image_shape = tuple(images.shape[1:])
        self.multi_label = targets.is_floating_point()

    def __len__(self):
        return len(self.images)

    def epoch(self, *, seed, epoch, batch_size, rank=0, world_size=1):
        yield from (batch for batch in self.in_order(batch_size=batch_size) if len(batch.targets) == batch_size)

    def in_order(self, *, batch_size, limit=None):
        size = len(self) if limit is None else min(limit, len(self))
        for start in range(0, size, batch_size):
            rows = slice(start, min(start + batch_size, size))
            yield Batch(self.images[rows], self.targets[rows], self.boxes[rows])


def make_task(*options, data, processes=ALONE):
    """The task of a tiny model and some data."""
    config = tiny_config(*options)
    return ClassificationTask(config, Splits(data, data, data), build_model(config, data), processes)
