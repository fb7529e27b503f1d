"""Programs of their own process for the tests: `dbt` as a user types it, and plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dbt_afterimage.runtime import java

BIN = Path(sys.executable).parent


def environment(**variables: str) -> dict[str, str]:
    """Return what a user's shell has set, and nothing of what the tests have set for themselves.

    Args:
        **variables: What to set besides.
    """
    own = ("AFTERIMAGE_", "DBT_", "JAVA_HOME", "PYSPARK_", "PYTHON", "SPARK_", "TZ")
    env = {key: value for key, value in os.environ.items() if not key.startswith(own)}
    # The Java chosen beforehand, so that no message about the machine's Java is in the output.
    java.apply(env)
    shared = {"NO_COLOR": "1", "AFTERIMAGE_DRIVER_MEMORY": "1g"}
    # Not one for each project that a test makes.
    state = Path(__file__).resolve().parents[3] / ".afterimage"
    shared["AFTERIMAGE_CLASS_ARCHIVE"] = str(state / "cache")
    shared["AFTERIMAGE_JARS"] = str(state / "jars")
    return {**env, **shared, **variables}


def attempt(
    *command: str | Path, cwd: Path, env: dict[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a program, which may fail."""
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=env if env is not None else environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def run(
    *command: str | Path, cwd: Path, env: dict[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a program and check that it succeeds."""
    result = attempt(*command, cwd=cwd, env=env, timeout=timeout)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result
