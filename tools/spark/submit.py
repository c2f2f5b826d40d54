"""`pagestore prepare` for spark-submit, which takes a file: `spark-submit ... submit.py OUT
--config job.toml`.

    spark-submit --master yarn "$(python -c 'import pagestore_tools.spark as s; print(s.SUBMIT)')"
    OUT --config job.toml

The package must be installed for the Python of the driver and of every worker.
"""

import sys

if __name__ == "__main__":
    from pagestore_tools.cli.main import pagestore

    sys.exit(pagestore(["prepare", *sys.argv[1:]]))
