"""A sample of the suite with other releases of numba: `python -m tests.numba_versions 0.61.2 0.66.0
0.67.0`.

Each release gets a virtual environment, in which the sample runs twice: with what overrides numba's
insides, as far as they are as expected, and without. Ends with 1 if a test fails.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAMPLE = ["tests/pagestore/runtime", "tests/pagestore/sorting", "tests/ivm/test_paper.py"]
WAY = "from pagestore.runtime.jit.compiler import overridden; import numba; print(numba.__version__, overridden())"


def main(releases: list[str]) -> int:
    """Run the sample with each release."""
    failed = []
    for release in releases:
        with tempfile.TemporaryDirectory(prefix="numba-") as folder:
            python = environment_of(release, Path(folder))
            for way in "jit", "plain":
                settings = {
                    **os.environ,
                    "PAGESTORE_KERNELS": way,
                    "NUMBA_CACHE_DIR": f"{folder}/{way}",
                }
                subprocess.run([python, "-c", WAY], cwd=ROOT, env=settings, check=True)
                command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SAMPLE]
                if subprocess.run(command, cwd=ROOT, env=settings).returncode:
                    failed.append(f"{release} {way}")
    print("failed:" if failed else "no test failed", *failed)
    return bool(failed)


def environment_of(release: str, folder: Path) -> Path:
    """The Python of a new virtual environment with a release of numba and the packages of this
    project.
    """
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"numba=={release}", "-e", ".[test]"], cwd=ROOT, check=True)
    return python


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
