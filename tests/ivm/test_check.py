"""All that is kept for rules, compared with what follows from relations: nothing is found where nothing is wrong,
and each kind of damage is found by its name.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from ivm.errors import ConstructError
from tests.mirror import Mirror
from tests.strategies import FULL, cases

relaxed = settings(max_examples=15, suppress_health_check=list(HealthCheck))
thorough = settings(max_examples=1500, suppress_health_check=list(HealthCheck))
ways = st.fixed_dictionaries(
    {"maintenance": st.sampled_from(["match", "match", "auto", "probe"]), "granularity": st.sampled_from([1, 1, 2, 5])}
)


def sound(case: tuple[str, list], options: dict) -> None:
    """After each transaction there is nothing to find."""
    text, transactions = case
    with tempfile.TemporaryDirectory() as folder:
        try:
            mirror = Mirror(Path(folder) / "store.pages", text, **options)
        except ConstructError:
            reject()
        for edits in transactions:
            mirror.change(edits)
            assert mirror.workspace.check() == []
        for name, predicate in mirror.program.predicates.items():
            if not predicate.extensional:
                mirror.workspace.verify(name)
        mirror.close()


@relaxed
@given(cases(FULL, count_max=8), ways)
def test_nothing_is_found_where_nothing_is_wrong(case, options):
    sound(case, options)


@pytest.mark.campaign
@thorough
@given(cases(FULL, count_max=12), ways)
def test_nothing_is_found_where_nothing_is_wrong_at_length(case, options):
    sound(case, options)
