"""Many environments at once, as Gymnasium knows them.

Shapes: B environments.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from glimpse.envs.env import METADATA, check_options, check_render_mode, read_index, render_row, row_of
from glimpse.envs.rules import GlimpseRules

Observation = dict[str, np.ndarray] | np.ndarray


class GlimpseVectorEnv(VectorEnv):
    """B environments that are stepped together: `GlimpseEnv`, of which each is one, is their manual.

    Environment i is equal, step for step and seed for seed, to environment i of a `SyncVectorEnv`, and has its own
    `np_random`, of seed `seed + i`. Observations are arrays that are new at every call and never written to again.

        gymnasium.make_vec("glimpse/Cluttered60-v0", num_envs=256, vectorization_mode="vector_entry_point")

    What happens to an environment whose episode has ended is Gymnasium's to say, by `autoreset_mode`: "NextStep", its
    next action is ignored and begins an episode; "SameStep", a new episode begins at once, and the end of the old one
    is `info["final_obs"]` and `info["final_info"]`; "Disabled", it waits for `reset(options={"reset_mask": mask})`.
    """

    def __init__(
        self,
        *,
        num_envs: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **options: Any,
    ):
        """Make the environments.

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
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._seeds: list[int | None] = [None] * num_envs
        self._begun = False

    @property
    def np_random(self) -> tuple[np.random.Generator, ...]:
        """The generator of each environment."""
        self._seed([None] * self.num_envs, range(self.num_envs))
        return tuple(self._generators)

    @property
    def np_random_seed(self) -> tuple[int, ...]:
        """The seed of each of them."""
        self._seed([None] * self.num_envs, range(self.num_envs))
        return tuple(self._seeds)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin episodes.

        Args:
            seed: Environment i is seeded with `seed + i`, or with entry i of a list; None seeds none anew.
            options: {"reset_mask": (B,) bool} begins episodes in some of the environments only, {"index": i} shows
                example i in all of them, {"index": (B,) integers} example i[b] in environment b.

        Returns:
            The observations of all environments, and info on those that begin.
        """
        options = check_options(options, "reset_mask", "index")
        mask = self._mask(options.get("reset_mask"))
        if not (self._begun or mask.all()):
            raise ResetNeeded("the first reset must begin an episode in every environment, got a reset_mask")
        rows = mask.nonzero()[0]
        index = options.get("index")
        index = None if index is None else read_index(index, (self.num_envs,), self.num_envs)[rows]
        self._seed(self._seed_list(seed), rows)
        self._begin(rows, index)
        self._begun = True
        return self.game.observe(), self._infos(mask)

    def step(
        self, actions: dict[str, Any] | np.ndarray
    ) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Let every agent answer and look somewhere else.

        Returns:
            Observations, rewards (B,), terminations (B,), truncations (B,), which there are none of, and infos.
        """
        if not self._begun:
            raise ResetNeeded("there is no episode to act in: call reset()")
        game, mode = self.game, self.autoreset_mode
        restarting = game.over.copy() if mode == AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        rewards, ended, correct = game.act(actions, (self.num_envs,), (~restarting).nonzero()[0])
        infos: dict[str, Any] = {}
        acted = ~restarting
        if mode == AutoresetMode.SAME_STEP and ended.any():
            infos = self._final(ended, correct)
            restarting, acted = ended, ~ended
        if restarting.any():
            self._begin(restarting.nonzero()[0])
        infos |= self._infos(np.ones(self.num_envs, bool), correct, acted)
        return game.observe(), rewards, ended, np.zeros(self.num_envs, bool), infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """The frame of each environment, see `GlimpseEnv.render`."""
        if self.render_mode is None:
            return render_row(self.game, 0, None)
        return tuple(render_row(self.game, row, self.render_mode) for row in range(self.num_envs))

    def _begin(self, rows: np.ndarray, index: np.ndarray | None = None) -> None:
        self.game.reset(rows, [self._generators[row] for row in rows], index)

    def _seed(self, seeds: Sequence[int | None], rows: Sequence[int] | np.ndarray) -> None:
        """Seed some of the environments: with None, those that never were, with whatever comes."""
        for row in rows:
            if seeds[row] is not None or self._generators[row] is None:
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

    def _infos(self, mask: np.ndarray, correct: np.ndarray | None = None, acted: np.ndarray | None = None) -> dict:
        """Infos on some environments, in the form of Gymnasium: a value is paired with a mask of who has it."""
        game = self.game
        targets = game.targets.numpy()
        where = mask[:, None] if game.multi_label else mask
        infos = {
            "index": np.where(mask, game.index, 0),
            "_index": mask.copy(),
            "target": np.where(where, targets, np.zeros_like(targets)),
            "_target": mask.copy(),
        }
        if acted is not None and acted.any():
            infos |= {"right": correct & acted, "_right": acted.copy()}
        return infos

    def _final(self, ended: np.ndarray, correct: np.ndarray) -> dict[str, Any]:
        """The end of episodes that are followed by others in the same step."""
        last = self.game.observe()
        observations = np.full(self.num_envs, None, object)
        for row in ended.nonzero()[0]:
            observations[row] = row_of(last, row)
        return {
            "final_obs": observations,
            "_final_obs": ended.copy(),
            "final_info": self._infos(ended, correct, ended),
            "_final_info": ended.copy(),
        }
