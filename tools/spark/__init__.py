"""Spark, where it is installed: a local session, and the jobs that prepare raw tables and build relations."""

from pathlib import Path

SUBMIT = str(Path(__file__).with_name("submit.py"))  # what spark-submit takes
