"""Record in each version which jobs it has applied, so that none is applied twice.

{"edge": {"2f6b...": 17, ...}}      relation edge has batch 17 of this streaming query, and all before it
"""

import json
from typing import NamedTuple

from pagestore.relations.transaction import Transaction

PROPERTY = "pagestore.spark"
ONCE = "once:"  # prefix of the names of jobs with a single batch
ONCE_KEPT = 64  # jobs of this kind recorded per relation: Spark commits each right after its tasks


class Job(NamedTuple):
    """A batch of rows to apply once, numbered by the application or streaming query that writes it."""

    application: str
    number: int


def is_applied(txn: Transaction, relation: str, job: Job) -> bool:
    """Return whether a relation has a job's rows, or those of a later job of the same application."""
    return bool(_recorded(txn).get(relation, {}).get(job.application, -1) >= job.number)


def record_applied(txn: Transaction, relation: str, job: Job) -> None:
    """Record that a transaction applies a job to a relation."""
    recorded = _recorded(txn)
    jobs = recorded.setdefault(relation, {})
    jobs.pop(job.application, None)
    jobs[job.application] = job.number  # the newest is last
    for old in [name for name in jobs if name.startswith(ONCE)][:-ONCE_KEPT]:
        del jobs[old]
    txn.properties[PROPERTY] = json.dumps(recorded)


def _recorded(txn: Transaction) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(txn.catalog.properties.get(PROPERTY, "{}"))
    return found
