"""Spark, if it is installed: a local session, and jobs that prepare tables and build relations."""

from pathlib import Path

SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, whose session is the one to use
SUBMIT = str(Path(__file__).with_name("submit.py"))  # the file for spark-submit
