"""The Gymnasium environment."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import logger
from gymnasium.error import ResetNeeded

from glimpse.envs.rules import GlimpseRules

METADATA: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 2}
ROW = np.zeros(1, np.int64)


class GlimpseEnv(gymnasium.Env):
    """An active-perception task: classify an image that can only be seen through a small, movable sensor.

    ## Description

    The task of Recurrent Models of Visual Attention (arXiv:1406.6247). The image is hidden. A glimpse of it is K
    concentric squares, each averaged down to G x G pixels: sharp in the center and coarser around. An episode has T
    glimpses. The first is given; after each, the agent answers what the image shows and chooses where to look next. An
    observation is bit for bit what the models of this package read at the same location.

    A location is (x, y): -1 is the left or top edge of the image and +1 the right or bottom edge. Outside the image
    everything is background.

    ## Action Space

    A `Dict`:

    | key | space | meaning |
    |---|---|---|
    | `location` | `Box(-1, 1, (2,), float32)` | where to look next |
    | `label` | `Discrete(classes)` | the answer; `MultiBinary(classes)` if an image may have several classes |
    | `stop` | `Discrete(2)` | only with `stop=True`: 1 ends the episode with this answer |

    The meaning of `location` depends on `motion`: "absolute", the next location itself; "relative", the step from the
    current location; "bounded", that step in units of `max_stride`, at most one unit long.

    With `answer="scores"`, `label` is replaced by `scores`, a `Box(-1, 1, (classes,), float32)`. The answer is the
    class with the highest score or, if an image may have several, all classes with scores above 0. The logits are 8
    times the scores.

    With `flat=True`, and in the ids that end in `-flat-v0`, an action is a `Box` of 2 + classes numbers, location and
    scores. With `stop=True` there is one number more, which ends the episode if it is above 0.

    An invalid action raises a ValueError that names the reason: a missing or unknown key, a wrong shape, integers
    instead of floats, NaN or infinity, a class that does not exist. A finite location outside its box is clipped to the
    box, and a location beyond the edge (see `margin`) to the edge. Scores outside their box are used as they are, up to
    one million.

    ## Observation Space

    A `Dict`:

    | key | space | meaning |
    |---|---|---|
    | `glimpse` | `Box(0, 1, (K*C, G, G), float32)` | the patches, finest scale first, of C channels each |
    | `location` | `Box(-1, 1, (2,), float32)` | the center of the patches |
    | `step` | `Discrete(T + 1)` | the number of actions so far |

    With `flat=True`, a `Box` of the flattened glimpse, the location, and the step divided by T.

    `info` has the `index` of the example, its `target` (the class, or a multi-hot vector) and, after an action, whether
    the answer was `right`. It is meant for evaluation and supervised losses, not as input of an agent.

    ## Rewards

    By `reward`: "final", as in the paper, 1 if the last answer is correct, else 0, and 0 before the last; "accuracy", 1
    for every correct answer; "log_likelihood", for every answer the log-probability of the target, which needs scores.
    `step_cost` is subtracted from every reward: with `stop=True`, an agent then gains by stopping early.

    ## Starting State

    A random example of the split, drawn by `np_random`; `reset(options={"index": i})` chooses example i of the split,
    in the fixed order used for scoring (`Dataset.in_order`). In the training split of cluttered MNIST, a random example
    is any digit image in any of as many layouts, 2.5 billion in all; other splits and other data show the examples that
    are used for scoring. The first glimpse is at the center, or with `first="random"` at a random location of it.

    ## Episode End

    The episode terminates at the T-th action, or at an action that stops it. This is a rule of the task and part of the
    observation (`step`), not a time limit from outside: no reward follows the last answer, so an agent must not
    bootstrap from the last state. Truncation is therefore always False. The last observation is that of the last
    glimpse: the location of the last action is not looked at. Then `reset` must be called.

    ## Arguments

    * `data`: settings by name, `{"canvas": 60, "num_distractors": 4}`, see `glimpse.data.settings`; or a settings
      object, a `glimpse.data.Splits` or a `glimpse.data.Dataset`.
    * Any setting of the data may be given by itself: `num_distractors=8`, or `kind="folder", root="photos"`.
    * `split="train"`: "train", "valid" or "test". A single `Dataset` is shown as in training for "train", else as in
      scoring.
    * `num_glimpses=6`: the number T of glimpses.
    * `patch_size=12`, `num_scales=3`, `scale_factor=2`, `background=0.0`: the sensor; see `glimpse.Sensor`. Or
      `sensor`: an object with the methods of `attention.sensor.ImageSensor`, such as a `FoveatedSensor`.
    * `first="center"`: location of the first glimpse, "center" or "random".
    * `motion="absolute"`: meaning of an action's location, "absolute", "relative" or "bounded".
    * `max_stride=0.5`: longest step of a bounded motion, in units of half the side of the image.
    * `margin=0.0`: how far beyond the edge of the image a location may be; locations lie in [-1 - margin, 1 + margin].
    * `answer="label"`: "label" or "scores".
    * `reward="final"`: "final", "accuracy" or "log_likelihood".
    * `step_cost=0.0`: cost of every action.
    * `stop=False`: whether the agent may end the episode.
    * `flat=False`: whether actions and observations are flat boxes; requires `answer="scores"`.
    * `render_mode=None`: None or "rgb_array", a frame as in the animations (`glimpse.view.glimpse_animation`).

    ```python
    import glimpse.envs, gymnasium
    env = gymnasium.make("glimpse/Cluttered60-v0", num_distractors=8, motion="bounded", stop=True, step_cost=0.02)
    ```

    `GlimpseVectorEnv` steps many environments at once (`gymnasium.make_vec`).

    ## Version History

    * v0: initial version.
    """

    metadata = METADATA

    def __init__(self, *, render_mode: str | None = None, **options: Any):
        """Create an environment; the class documents the options."""
        check_render_mode(render_mode)
        self.render_mode = render_mode
        self.game = GlimpseRules(1, **options)
        self.observation_space = self.game.observation_space
        self.action_space = self.game.actions.space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any] | np.ndarray, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Seed of `np_random`, which draws all random numbers; None: continue with the current state.
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
        """Answer, and move the sensor.

        Returns:
            Observation, reward, whether the episode has terminated, whether it was truncated (never), and info.
        """
        rewards, terminated, correct = self.game.step(action, (), ROW)
        info = {**self._info(), "right": bool(correct[0])}
        return row_of(self.game.observe(), 0), float(rewards[0]), bool(terminated[0]), False, info

    def render(self) -> np.ndarray | None:
        """Draw the image with the glimpses so far, the patches and the last answer, as a frame of an animation."""
        return draw_row(self.game, 0) if can_render(self.render_mode) else None

    def _info(self) -> dict[str, Any]:
        target = self.game.targets[0]
        return {
            "index": int(self.game.index[0]),
            "target": target.numpy().copy() if self.game.multi_label else int(target),
        }


def check_render_mode(render_mode: str | None) -> None:
    """Raise a ValueError for an unknown render mode."""
    if render_mode not in (None, *METADATA["render_modes"]):
        raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")


def check_options(options: dict[str, Any] | None, *valid: str) -> dict[str, Any]:
    """Raise a ValueError for unknown options of a reset."""
    options = options or {}
    if unknown := set(options) - set(valid):
        raise ValueError(f"the options of reset are {', '.join(valid)}, got {', '.join(map(str, unknown))}")
    return options


def read_index(value: Any, batch_shape: tuple[int, ...], size: int) -> np.ndarray:
    """Check the indices (B,) of examples: one for all environments, or an array of shape `batch_shape`."""
    index = np.asarray(value)
    if index.shape not in ((), batch_shape) or not np.issubdtype(index.dtype, np.integer):
        shapes = "an integer" + (f" or integers of shape {batch_shape}" if batch_shape else "")
        raise ValueError(f"index must be {shapes}, got {index.dtype} of shape {index.shape}")
    return np.broadcast_to(index, (size,)).astype(np.int64)


def row_of(observation: dict[str, np.ndarray] | np.ndarray, row: int) -> dict[str, Any] | np.ndarray:
    """Select the observation of one environment from those of a batch."""
    if isinstance(observation, dict):
        return {name: value[row] for name, value in observation.items()}
    return observation[row]


def can_render(render_mode: str | None) -> bool:
    """Return whether an environment was made for rendering; warn if not."""
    if render_mode is None:
        logger.warn("render() needs an environment that is made with render_mode='rgb_array'")
    return render_mode is not None


def draw_row(game: GlimpseRules, row: int) -> np.ndarray:
    """Draw one environment of a batch."""
    if not game.num_actions[row] and game.over[row]:
        raise ResetNeeded("there is no episode to draw: call reset()")
    from glimpse.envs.render import frame  # matplotlib is slow to import, and most environments are never drawn

    return frame(game, row)
