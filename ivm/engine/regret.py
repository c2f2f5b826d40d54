"""When a rule turns from probing to matching, or back: what it has cost beyond the other method.

    sponsored of a celebrity ──▶ probing reads a million followers in vain ──▶ noted
    ... again, and again     ──▶ together that costs as much as a sensitivity index ──▶ recorded

A probe joins a changed row with the other relations.  It may read long lists that have nothing in
common, where the trace, and so a match, is never touched.  Whether changes fall on such rows is
known only once they do, and so is how long a trace is.  So what each change cost beyond the other
method is added up, as one rents until buying would have paid, and recording may take as much as
has been paid.  What came before the first probe, joins by columns and an index, counts as well
once a probe is long.  If recording takes more it is given up, and tried again once twice as much
has been paid.

A rule turns back once matching has cost more than recording anew.  Each turn doubles the price of
the next, so that changes which favour one method and then the other do not turn a rule for ever.

Costs are units of plan/costs.py.  They belong to a process, and begin anew in the next one; what a
rule has turned to is kept with its plans.
"""

from collections import Counter
from collections.abc import Mapping

from ivm.engine.kernels.run import EXCESS_FREE
from ivm.plan import costs
from ivm.rules.account import Account
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledRule
from pagestore.host import Edits


class Regret:
    """What rules have cost beyond their other method, by their numbers; `due` are those that turn
    in the next transaction that reaches them.
    """

    def __init__(self) -> None:
        self.due = set[int]()
        self._paid, self._turns = Counter[int](), Counter[int]()
        self._prices = dict[int, float]()  # of turning, where an estimate is known

    def prepared(self, rule: InstalledRule, cost: float) -> None:
        """Add what probing cost before its first probe: joins by columns, and building its index.

        A rule turns only once a probe itself was long, so this alone makes none due.
        """
        self._paid[rule.number] += int(costs.PREPARED * cost)

    def probed(self, rule: InstalledRule, operations: int) -> None:
        """Add a change whose probes passed over long lists."""
        rows = sum(rule.basis.sizes.values())
        self._add(rule, costs.LONG_OPERATION * operations, costs.recording(rows, EXCESS_FREE))

    def matched(self, rule: InstalledRule, operations: int, renewed: int, rows: int) -> None:
        """Add a change of some rows that was matched, by operations and renewed intervals."""
        probing = costs.OPERATION * rule.basis.expected * rows
        matching = costs.matching(1, operations, renewed, 0)
        rows_read = sum(rule.basis.sizes.values())
        self._add(rule, matching - probing, costs.recording(rows_read, rule.basis.operations))

    def account(
        self, installed: Installed, accounts: Mapping[str, Account], edits: Mapping[str, Edits]
    ) -> None:
        """Add a transaction whose steps a kernel took, with what it did for each view."""
        rows = sum(len(actions) for actions, _ in edits.values())
        for name in accounts.keys() & installed.turned.keys():
            account = accounts[name]
            self.matched(installed.turned[name], account.operations, 2 * account.matched, rows)

    def _add(self, rule: InstalledRule, paid: float, price: float) -> None:
        number = rule.number
        self._paid[number] = max(0, self._paid[number] + int(paid))
        if self._paid[number] > self._prices.get(number, price) * 2 ** self._turns[number]:
            self.due.add(number)

    def pays(self, rule: InstalledRule, price: float) -> bool:
        """Return whether a rule has paid a price; if not, it is due once it has."""
        number = rule.number
        self.due.discard(number)
        self._prices[number] = price
        return bool(self._paid[number] > price * 2 ** self._turns[number])

    def turn(self, rule: InstalledRule) -> float:
        """Note that a rule turns, or tries to; return what it has paid for that."""
        number = rule.number
        self.due.discard(number)
        self._prices.pop(number, None)
        self._turns[number] += 1
        return self._paid.pop(number, 0)
