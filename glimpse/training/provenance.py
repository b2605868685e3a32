"""The command, commit, versions and machine that a run was made with."""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch


def provenance() -> dict[str, Any]:
    """Return the command, commit, versions and machine of this process, for meta.json."""
    return {
        "command": sys.argv,
        "started": time.strftime("%Y-%m-%d %H:%M:%S"),
        "commit": commit_of(Path(__file__).parents[2]),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }


def commit_of(folder: Path) -> str | None:
    """Return the git commit of the code, with a plus if there are uncommitted changes.

    None if the folder is not the root of this project's repository. Otherwise a package installed into a virtual
    environment would report the commit of the repository that contains the environment.
    """
    git = ["git", "-C", str(folder)]
    if not (folder / ".git").exists() or not (folder / "pyproject.toml").exists():
        return None
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changes = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changes.stdout.strip() else "")
