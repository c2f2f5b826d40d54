"""Random programs that compose (compose.py), over cells: after each batch rows and changes are
those of one store.

    python -m tests.reliability over_cells              2,000 programs; --part 0.1 for a tenth
    python -m tests.reliability.over_cells 1000 17      what seed 17 of piece 1000 is, and what is wrong with it

Views that cells refuse, and those that read them, are left out.
"""

import sys
from collections import Counter
from dataclasses import replace

from ivm.errors import RuleError
from ivm.spark.layout import plan
from tests.support.over_cells import through_cells
from tests.support.programs.compositions import Case, case_of, smaller

CELLS = 1, 2, 3, 5


def run(seed: int, amount: int) -> Counter[str]:
    """Try programs; raises AssertionError with the first that fails, made smaller."""
    counts: Counter[str] = Counter()
    for number in range(amount):
        case, cells = taken_by_cells(case_of(f"{seed}.{number}")[0]), CELLS[number % len(CELLS)]
        found = error_of(case, cells)
        if found is not None:
            kind = type(found)
            least = smaller(
                case, lambda one, kind=kind, cells=cells: isinstance(error_of(one, cells), kind)
            )
            said = f"seed {seed}.{number}, {cells} cells: {found!r}\nSmaller:\n{least}\n{error_of(least, cells)!r}"
            raise AssertionError(said) from found
        counts += Counter(
            programs=1, views=sum(map(len, case.blocks)), batches=len(case.transactions)
        )
    return counts


def taken_by_cells(case: Case) -> Case:
    """A case with the views that cells take."""
    text, views = "\n".join(case.stored.values()), []
    for view in (view for block in case.blocks for view in block):
        try:
            plan("\n".join([text, *views, view]), 2)
        except RuleError:
            continue
        views.append(view)
    batches = [step for step in case.transactions if isinstance(step, list)]
    batches = [[edit for edit in edits if edit[0] in case.stored] for edits in batches]
    return replace(case, blocks=[views], options=[{}], transactions=batches)


def error_of(case: Case, cells: int) -> Exception | None:
    """What is wrong with a case; None if nothing is, or if it has no text any more."""
    text = "\n".join([*case.stored.values(), *(view for block in case.blocks for view in block)])
    try:
        taken = not text or through_cells(text, case.transactions, cells)
    except RuleError:  # of a case that was made smaller, and reads what is not there any more
        return None
    except Exception as error:
        return error
    except BaseException as failed:  # pytest's, where cells take what the store refuses
        return AssertionError(str(failed))
    assert taken, text
    return None


if __name__ == "__main__":
    piece, number = sys.argv[1:]
    one = taken_by_cells(case_of(f"{piece}.{number}")[0])
    print(one, repr(error_of(one, CELLS[int(number) % len(CELLS)])), sep="\n")
