"""One environment, as Gymnasium knows it."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import logger
from gymnasium.error import ResetNeeded

from glimpse.envs.rules import GlimpseRules

METADATA = {"render_modes": ["rgb_array"], "render_fps": 2}
ROW = np.zeros(1, np.int64)


class GlimpseEnv(gymnasium.Env):
    """A task of active perception: look at an image through a small sensor, move it, and say what the image shows.

    ## Description

    The task of Recurrent Models of Visual Attention (arXiv:1406.6247). An image is hidden; a glimpse of it is K
    concentric squares, each averaged down to G x G pixels, so that it is sharp in the middle and blurred around. An
    episode has T glimpses. The first is given; after each, the agent says what it thinks the image shows and where it
    wants to look next. What it sees is, bit for bit, what the models of this package read at the same place.

    A location is (x, y): -1 is the left or top edge of the image and +1 the right or bottom edge. Off the image
    everything is background.

    ## Action Space

    A `Dict`:

    | key | space | meaning |
    |---|---|---|
    | `location` | `Box(-1, 1, (2,), float32)` | where to look next |
    | `label` | `Discrete(classes)` | what the image shows; `MultiBinary(classes)` if it may show several things |
    | `stop` | `Discrete(2)` | with `stop=True` only: 1 makes this answer the last |

    `location` has three meanings, by `motion`: "absolute", the place itself; "relative", the way to it from the present
    place; "bounded", the same in units of `max_stride` and never longer than one of them.

    With `answer="scores"` there is, in the place of `label`, `scores`, a `Box(-1, 1, (classes,), float32)`: the highest
    is the answer (of images that may show several things, all above 0 are). 8 times the scores are logits.

    With `flat=True`, and in the ids that end in `-flat-v0`, an action is a `Box` of 2 + classes numbers, location and
    scores, and with `stop=True` one number more, which stops if it is above 0.

    What is not an action is a ValueError that says why: a missing or unknown key, a wrong shape, integers for floats,
    NaN or infinity, a class that does not exist. A finite location outside of its box is not an error but clipped to
    it, and a place off the edge (see `margin`) to the edge. Finite scores outside of their box are taken as they are,
    up to a million.

    ## Observation Space

    A `Dict`:

    | key | space | meaning |
    |---|---|---|
    | `glimpse` | `Box(0, 1, (K*C, G, G), float32)` | the patches, finest scale first, of C channels each |
    | `location` | `Box(-1, 1, (2,), float32)` | where they are |
    | `step` | `Discrete(T + 1)` | the number of actions so far |

    With `flat=True` a `Box` of the same: the glimpse row by row, the location, and the step divided by T.

    `info` has the `index` of the example, its `target` (the class, or ones and zeros) and, after an action, whether the
    answer was `correct`. It is meant for scoring and for supervised losses: an agent that acts on it cheats.

    ## Rewards

    By `reward`: "final", the paper's: 1 if the last answer is right, else 0, and 0 before. "accuracy": 1 for every
    right answer. "log_likelihood": for every answer the log-probability of the truth, which takes scores. From each of
    them `step_cost` is subtracted, so that with `stop=True` it pays to be quick.

    ## Starting State

    An example of the split, drawn by `np_random`; `reset(options={"index": i})` chooses example i of the split in the
    fixed order in which it is scored (`Dataset.in_order`). The training split of cluttered MNIST, if no example is
    chosen, shows any of its digits in any of as many layouts, 2.5 billion images; other splits and other data show the
    examples that are scored. The first glimpse is in the centre, or with `first="random"` anywhere on the image.

    ## Episode End

    The episode is terminated by the T-th action, or by an action that stops. That is the task's own rule and part of
    what the agent observes (`step`), not a limit put on it from outside: what follows the last answer is worth nothing,
    and an agent must not bootstrap from it. So it is termination; truncation is always False. The last observation is
    that of the last glimpse: the place that came with the last answer is not looked at. Further actions need a reset.

    ## Arguments

    * `data`: what to look at. settings by name, `{"canvas": 60, "num_distractors": 4}`, see `glimpse.data.settings`;
      or an object of them, a `glimpse.data.Splits` or a `glimpse.data.Dataset`.
    * Any setting of `DataConfig` by itself changes that one: `num_distractors=8`, or `kind="folder", root="photos"`.
    * `split="train"`: "train", "valid" or "test". Of a `Dataset`, "train" shows it as in training, the others as it is
      scored.
    * `num_glimpses=6`: the number T of glimpses.
    * `patch_size=12`, `num_scales=3`, `scale_factor=2`, `background=0.0`: the sensor; see `glimpse.Sensor`.
    * `first="center"`: where the first glimpse is, "center" or "random".
    * `motion="absolute"`: what an action's location means: "absolute", "relative" or "bounded".
    * `max_stride=0.5`: the longest way of a bounded motion; the half side of the image is 1.
    * `margin=0.0`: how far beyond the edge of the image one may look; locations lie in [-1 - margin, 1 + margin].
    * `answer="label"`: "label" or "scores".
    * `reward="final"`: "final", "accuracy" or "log_likelihood".
    * `step_cost=0.0`: what every action costs.
    * `stop=False`: whether the agent may end the episode by its answer.
    * `flat=False`: whether actions and observations are flat boxes; takes `answer="scores"`.
    * `render_mode=None`: or "rgb_array": the frame that an animation of a model has (`glimpse.view.glimpse_animation`).

    ```python
    import glimpse.envs, gymnasium
    env = gymnasium.make("glimpse/Cluttered60-v0", num_distractors=8, motion="bounded", stop=True, step_cost=0.02)
    ```

    `GlimpseVectorEnv` is the same for many environments at once (`gymnasium.make_vec`).

    ## Version History

    * v0: the first.
    """

    metadata = METADATA

    def __init__(self, *, render_mode: str | None = None, **options: Any):
        """Make an environment; for the options see the class."""
        check_render_mode(render_mode)
        self.render_mode = render_mode
        self.game = GlimpseRules(1, **options)
        self.observation_space = self.game.observation_space
        self.action_space = self.game.actions.space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any] | np.ndarray, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Of `np_random`, from which all chance comes.
            options: {"index": i} shows example i.

        Returns:
            The first observation, and info.
        """
        super().reset(seed=seed)
        chosen = check_options(options, "index").get("index")
        index = None if chosen is None else read_index(chosen, (), 1)
        self.game.reset(ROW, [self.np_random], index)
        return row_of(self.game.observe(), 0), self._info()

    def step(
        self, action: dict[str, Any] | np.ndarray
    ) -> tuple[dict[str, Any] | np.ndarray, float, bool, bool, dict[str, Any]]:
        """Answer, and look somewhere else."""
        rewards, ended, correct = self.game.act(action, (), ROW)
        info = {**self._info(), "right": bool(correct[0])}
        return row_of(self.game.observe(), 0), float(rewards[0]), bool(ended[0]), False, info

    def render(self) -> np.ndarray | None:
        """The frame of an animation: the image with the glimpses so far, what they show, and the last answer."""
        return render_row(self.game, 0, self.render_mode)

    def _info(self) -> dict[str, Any]:
        target = self.game.targets[0]
        return {
            "index": int(self.game.index[0]),
            "target": target.numpy().copy() if self.game.multi_label else int(target),
        }


def check_render_mode(render_mode: str | None) -> None:
    """Refuse an unknown way to render."""
    if render_mode not in (None, *METADATA["render_modes"]):
        raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")


def check_options(options: dict[str, Any] | None, *valid: str) -> dict[str, Any]:
    """Refuse unknown options of a reset."""
    options = options or {}
    if unknown := set(options) - set(valid):
        raise ValueError(f"the options of reset are {', '.join(valid)}, got {', '.join(map(str, unknown))}")
    return options


def read_index(value: Any, lead: tuple[int, ...], size: int) -> np.ndarray:
    """Check which examples (B,) to show: one for all environments, or one each of shape `lead`."""
    index = np.asarray(value)
    if index.shape not in ((), lead) or not np.issubdtype(index.dtype, np.integer):
        shapes = "an integer" + (f" or integers of shape {lead}" if lead else "")
        raise ValueError(f"index must be {shapes}, got {index.dtype} of shape {index.shape}")
    return np.broadcast_to(index, (size,)).astype(np.int64)


def row_of(observation: dict[str, np.ndarray] | np.ndarray, row: int) -> dict[str, Any] | np.ndarray:
    """The observation of one environment among those of a batch."""
    if isinstance(observation, dict):
        return {name: value[row] for name, value in observation.items()}
    return observation[row]


def render_row(game: GlimpseRules, row: int, render_mode: str | None) -> np.ndarray | None:
    """Draw one environment of a batch, if it was made to be drawn."""
    if render_mode is None:
        logger.warn("render() needs an environment that is made with render_mode='rgb_array'")
        return None
    if not game.step[row] and game.over[row]:
        raise ResetNeeded("there is no episode to draw: call reset()")
    from glimpse.envs.render import frame  # matplotlib is slow to import, and most environments are never drawn

    return frame(game, row)
