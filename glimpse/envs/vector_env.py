"""The Gymnasium vector environment.

Shapes: B environments.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from glimpse.envs.env import METADATA, can_render, check_options, check_render_mode, draw_row, read_index, row_of
from glimpse.envs.rules import GlimpseRules

Observation = dict[str, np.ndarray] | np.ndarray


class GlimpseVectorEnv(VectorEnv):
    """B environments that are stepped together. `GlimpseEnv` documents each of them.

    Environment i equals, step for step and seed for seed, environment i of a `SyncVectorEnv`, and has its own
    `np_random` with seed `seed + i`. Observations are new arrays at every call and are never written to again.

        gymnasium.make_vec("glimpse/Cluttered60-v0", num_envs=256, vectorization_mode="vector_entry_point")

    `autoreset_mode` has Gymnasium's meaning, for an environment whose episode has ended. "NextStep": its next action is
    ignored and starts an episode. "SameStep": a new episode starts at once; the end of the old one is in
    `info["final_obs"]` and `info["final_info"]`. "Disabled": it waits for `reset(options={"reset_mask": mask})`.
    """

    def __init__(
        self,
        *,
        num_envs: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **options: Any,
    ):
        """Create the environments.

        Args:
            num_envs: Number B of environments.
            autoreset_mode: "NextStep", "SameStep" or "Disabled".
            render_mode: None or "rgb_array".
            **options: See `GlimpseEnv`.
        """
        check_render_mode(render_mode)
        self.render_mode = render_mode
        modes = {mode.value: mode for mode in AutoresetMode}
        if autoreset_mode not in (*modes, *modes.values()):
            raise ValueError(f"autoreset_mode must be one of {', '.join(modes)}, got {autoreset_mode!r}")
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**METADATA, "autoreset_mode": self.autoreset_mode}
        self.game = GlimpseRules(num_envs, **options)
        self.num_envs = num_envs
        self.single_observation_space = self.game.observation_space
        self.single_action_space = self.game.actions.space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._generators: dict[int, np.random.Generator] = {}  # by environment, once seeded
        self._seeds: dict[int, int] = {}
        self._has_reset = False

    @property  # type: ignore[misc]  # no setter, as in Gymnasium's SyncVectorEnv
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]  # a tuple, as in SyncVectorEnv
        """The random generator of each environment."""
        self._seed([None] * self.num_envs, range(self.num_envs))
        return tuple(self._generators[row] for row in range(self.num_envs))

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]  # a tuple, as in SyncVectorEnv
        """The seed of each environment."""
        self._seed([None] * self.num_envs, range(self.num_envs))
        return tuple(self._seeds[row] for row in range(self.num_envs))

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start episodes.

        Args:
            seed: Environment i is seeded with `seed + i`, or with entry i of a list; None: keep its generator.
            options: {"reset_mask": (B,) bool} resets only the environments of the mask, {"index": i} shows example i in
                all of them, {"index": (B,) integers} example i[b] in environment b.

        Returns:
            The observations of all environments, and info on those that were reset.
        """
        options = check_options(options, "reset_mask", "index")
        mask = self._mask(options.get("reset_mask"))
        if not (self._has_reset or mask.all()):
            raise ResetNeeded("the first reset must begin an episode in every environment, got a reset_mask")
        rows = mask.nonzero()[0]
        index = options.get("index")
        index = None if index is None else read_index(index, (self.num_envs,), self.num_envs)[rows]
        self._seed(self._seed_list(seed), rows)
        self._start(rows, index)
        self._has_reset = True
        return self.game.observe(), self._infos(mask)

    def step(
        self, actions: dict[str, Any] | np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Answer and move the sensor in every environment.

        Returns:
            Observations, rewards (B,), terminations (B,), truncations (B,), always False, and infos.
        """
        if not self._has_reset:
            raise ResetNeeded("there is no episode to act in: call reset()")
        game, mode = self.game, self.autoreset_mode
        restarting = game.over.copy() if mode == AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        rewards, terminated, correct = game.step(actions, (self.num_envs,), (~restarting).nonzero()[0])
        infos: dict[str, Any] = {}
        if mode == AutoresetMode.SAME_STEP and terminated.any():
            infos = self._final(terminated, correct)
            restarting = terminated
        if restarting.any():
            self._start(restarting.nonzero()[0])
        infos |= self._infos(np.ones(self.num_envs, bool), correct, ~restarting)
        return game.observe(), rewards, terminated, np.zeros(self.num_envs, bool), infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Draw each environment, see `GlimpseEnv.render`."""
        if not can_render(self.render_mode):
            return None
        return tuple(draw_row(self.game, row) for row in range(self.num_envs))

    def _start(self, rows: np.ndarray, index: np.ndarray | None = None) -> None:
        self.game.reset(rows, [self._generators[row] for row in rows], index)

    def _seed(self, seeds: Sequence[int | None], rows: Sequence[int] | np.ndarray) -> None:
        """Seed some of the environments; None draws a seed for an environment that has none, and keeps any other."""
        for row in rows:
            if seeds[row] is not None or row not in self._generators:
                self._generators[row], self._seeds[row] = np_random(seeds[row])

    def _seed_list(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None or isinstance(seed, int | np.integer):
            return [None if seed is None else int(seed) + row for row in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"there must be one seed for each of the {self.num_envs} environments, got {len(seed)}")
        return seed

    def _mask(self, mask: Any) -> np.ndarray:
        if mask is None:
            return np.ones(self.num_envs, bool)
        mask = np.asarray(mask)
        if mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            raise ValueError(
                f"reset_mask must be ({self.num_envs},) bool with at least one True, "
                f"got {mask.shape} {mask.dtype}{'' if mask.any() else ', none True'}"
            )
        return mask

    def _infos(
        self, mask: np.ndarray, correct: np.ndarray | None = None, stepped: np.ndarray | None = None
    ) -> dict[str, Any]:
        """Infos on the environments of a mask; as in Gymnasium, each value is paired with a mask of who has it.

        Args:
            mask: (B,), the environments.
            correct: (B,), whether their answers are correct.
            stepped: (B,), the environments that have answered; None: none of them.
        """
        game = self.game
        targets = game.targets.numpy()
        where = mask[:, None] if game.multi_label else mask
        infos = {
            "index": np.where(mask, game.index, 0),
            "_index": mask.copy(),
            "target": np.where(where, targets, np.zeros_like(targets)),
            "_target": mask.copy(),
        }
        if correct is not None and stepped is not None and stepped.any():
            infos |= {"right": correct & stepped, "_right": stepped.copy()}
        return infos

    def _final(self, ended: np.ndarray, correct: np.ndarray) -> dict[str, Any]:
        """Infos on the last observations of episodes that have ended, before new ones start in the same step."""
        batch = self.game.observe()
        observations = np.full(self.num_envs, None, object)
        for row in ended.nonzero()[0].tolist():
            observations[row] = row_of(batch, row)
        return {
            "final_obs": observations,
            "_final_obs": ended.copy(),
            "final_info": self._infos(ended, correct, ended),
            "_final_info": ended.copy(),
        }
