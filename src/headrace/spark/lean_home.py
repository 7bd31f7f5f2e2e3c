"""Python workers that start sooner: a SPARK_HOME without the zip file that they would import PySpark from.

Spark puts `python/lib/pyspark.zip` in front of every worker's path. Python keeps no bytecode for a zip file, so each process
compiles what it imports anew, which takes a second of CPU time; from the installed package it takes a third of that. On one
machine the workers run with the very Python that has PySpark installed and do not need the zip. So they get a folder of links
to the rest of Spark's home. It is kept in the cache, one for each installation.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

_NEEDED = ("bin", "conf", "data", "jars", "sbin")


def lean_home(spark_home: str, cache: Path) -> Path | None:
    """None where links can't be made; then Spark's own home does as well."""
    original = Path(os.path.realpath(spark_home))
    home = cache / f"home-{hashlib.sha256(str(original).encode()).hexdigest()[:8]}"
    if (home / "jars").exists() and os.path.realpath(home / "jars") == str(original / "jars"):
        return home
    fresh = cache / f"{home.name}.{os.getpid()}"
    try:
        fresh.mkdir(parents=True)
        for name in _NEEDED:
            if (original / name).exists():
                (fresh / name).symlink_to(original / name)
        shutil.rmtree(home, ignore_errors=True)  # of an installation that is gone
        fresh.rename(home)
    except OSError:  # no links on this system, or somebody else was quicker
        shutil.rmtree(fresh, ignore_errors=True)
    return home if (home / "jars").exists() else None
