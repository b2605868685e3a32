"""compare: tables and a figure of several runs; missing runs are trained first."""

from argparse import Namespace
from pathlib import Path

from glimpse.config.upgrade import ALIASES
from glimpse.distributed import processes
from glimpse.errors import ConfigError, MisplacedSettingError
from glimpse.files import check_folder
from glimpse.tasks.runs import check_same_data, common_task
from glimpse.tasks.settings import load_config, split_arguments
from glimpse.training.run import Run
from glimpse.training.sweep import PlannedRun, train_missing


def run(options: Namespace) -> None:
    """Train missing runs, compare all, and write the tables and the figure."""
    _, _, settings = split_arguments(options.settings)
    if not options.configs and (settings or options.seeds):
        name = settings[0].partition("=")[0] if settings else "--seeds"
        raise ConfigError(f"{name} requires --configs")
    applicable = applicable_settings(settings, options.configs)
    planned = [
        PlannedRun(Path(file).stem, load_config([*chosen, f"--seed={seed}"], file=file))
        for file, chosen in zip(options.configs, applicable, strict=True)
        for seed in range(options.seeds or 1)
    ]
    if not planned and not options.runs:
        raise ConfigError("there must be at least one run folder or config file (--configs) to compare")
    # Fail before hours of training, not after.
    given = [Run.open(folder) for folder in options.runs]
    configs = {str(run): run.config for run in given}
    first_of_each_config = planned[:: options.seeds or 1]
    configs |= {str(file): run.config for file, run in zip(options.configs, first_of_each_config, strict=True)}
    task = common_task(configs)
    compare = task.command("compare", next(iter(configs)))
    check_same_data(configs)
    check_folder(options.out)
    trained = train_missing(planned, given=given)
    with processes(options.device, options.threads) as workers:
        compare([*given, *(run for run in trained if run not in given)], options, workers)


def applicable_settings(settings: list[str], files: list[str]) -> list[list[str]]:
    """The settings that exist for each config file; raises ConfigError for one that exists for none of them."""
    applicable = []
    misplaced: dict[str, MisplacedSettingError] = {}
    for file in files:
        chosen = list(settings)
        while True:
            try:
                load_config(chosen, file=file)
                break
            except MisplacedSettingError as error:
                dropped = {setting for setting in chosen if _is_of(setting, error)}
                if not dropped:  # a setting of the file
                    raise
                misplaced |= dict.fromkeys(dropped, error)
                chosen = [setting for setting in chosen if setting not in dropped]
        applicable.append(chosen)
    for setting, reason in misplaced.items():
        if not any(setting in chosen for chosen in applicable):
            raise reason
    return applicable


def _is_of(setting: str, error: MisplacedSettingError) -> bool:
    """Whether an error is about a setting of the command line."""
    name = setting.removeprefix("--").partition("=")[0]
    return error.key in (name, ALIASES.get(name))
