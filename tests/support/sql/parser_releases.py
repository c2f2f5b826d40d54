"""A sample of the tests of SQL with other releases of sqlglot: `python -m
tests.support.sql.parser_releases 30.25.0`.

Without releases, with the oldest and some of those that `pyproject.toml` allows. Each is put before
the installed one, in a temporary folder. Ends with 1 if a test fails.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
RELEASES = ["30.25.0", "30.27.0", "30.29.0", "30.30.0"]
SAMPLE = ["tests/sql/test_dialects.py", "tests/sql/test_names.py", "tests/sql/test_statements.py"]


def main(releases: list[str]) -> int:
    """Run the sample with each release."""
    failed = []
    for release in releases or RELEASES:
        with tempfile.TemporaryDirectory(prefix="sqlglot-") as folder:
            install = [
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--target",
                folder,
                f"sqlglot=={release}",
            ]
            subprocess.run([os.environ.get("PIP_PYTHON", sys.executable), *install], check=True)
            settings = {**os.environ, "PYTHONPATH": folder}
            print(f"sqlglot {release}", flush=True)
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SAMPLE]
            if subprocess.run(command, cwd=ROOT, env=settings).returncode:
                failed.append(release)
    print("failed:" if failed else "no test failed", *failed)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
