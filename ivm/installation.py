"""Install, replace and uninstall blocks of rules, each in one transaction that keeps the pages of
unchanged views.

    before      graph: near, reach      far: far, which reads reach
    after       graph: near, reach      far is recompiled over the new rules of graph

engine/kept.py decides which views are kept; all others are evaluated.
"""

import warnings
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from ivm.engine.engine import Engine
from ivm.engine.fill import Fill
from ivm.engine.kept import Kept, kept_of, rearrange
from ivm.errors import (
    EditError,
    RecursionRefusedError,
    RedefinitionError,
    RuleError,
    RuleSyntaxError,
    RuleWarning,
    UninstallError,
    UnknownPredicateError,
    Where,
)
from ivm.lang.ir import Edit, Predicate, Var, atoms, unnamed_in
from ivm.lang.program import Program, readers
from ivm.lang.syntax_tree import Change
from ivm.names import declared_name, is_made, tables_of_sql
from ivm.rope import note_erased
from ivm.rules.compile import Given, names_in, parsed, with_block
from ivm.rules.constraints import refuse_violations
from ivm.rules.installed import PLAIN, Block, Installed, Options, refuse_foreign_writers
from ivm.rules.relations import (
    Relations,
    declaration_of,
    declaring,
    function_schema,
    with_columns_of,
)
from ivm.rules.saved import SavedRules
from ivm.rules.stored import HOST, KnownRules, save, stored_before
from ivm.terms.encoder import Encoder
from ivm.transaction import Transaction
from ivm.views.delta import Delta, visible_difference
from ivm.ways.way import Context
from ivm.wide import forget
from pagestore.errors import SchemaError
from pagestore.host import ERASE, INSERT, Edits, Schema, recorded_dependants
from pagestore.host import Transaction as StoreTransaction


class Installation(NamedTuple):
    """The rules after an installation, also in saved form, and the engine that filled views.

    `evaluated` are the views that were filled, `changes` those of the watched views that existed
    before in the same form, and `gone` the predicates that no longer exist or have another form.
    """

    saved: SavedRules
    installed: Installed
    engine: Engine
    evaluated: frozenset[str]
    changes: Mapping[str, Delta]
    gone: frozenset[str]

    def warnings(self, name: str) -> tuple[RuleWarning, ...]:
        """Return the warnings about the text of a block."""
        return next(block.part.warnings for block in self.installed.blocks if block.name == name)


class Removal(NamedTuple):
    """What is removed with a block, and which of its relations stay in the store, each with its
    number of rows.
    """

    views: dict[str, int]
    relations: dict[str, int]
    kept: dict[str, int]


class Blocks:
    """Blocks that come and go in one transaction, with whatever else changes in it."""

    def __init__(
        self, txn: StoreTransaction, known: KnownRules, watched: Collection[str], strict: bool
    ) -> None:
        """Take the watched views, and whether views are refused that are evaluated anew."""
        self.txn, self._known, self._watched, self._strict = txn, known, watched, strict
        self.saved: SavedRules | None = None  # the rules that are left, if any came or went
        self.done: list[Installation] = []

    def install(
        self,
        given: Given,
        name: str,
        options: Options = PLAIN,
        replace: bool = False,
        edit: Callable[[Transaction], None] | None = None,
    ) -> None:
        """Install a block as `Workspace.install` does."""
        self.txn.declare_maintained(HOST)
        how = options, replace, self._watched, self._strict, edit
        done = install_part(self.txn, self._known, edit is not None, name, given, *how)
        note_erased(done.engine, self._watched, done.changes)
        self.saved = done.saved
        self.done.append(done)
        warn(done.warnings(name), stacklevel=4)

    def uninstall(self, name: str, relations: bool = False) -> Removal:
        """Remove a block as `Workspace.uninstall` does."""
        self.txn.declare_maintained(HOST)
        self.saved, _, removal = uninstall_part(self.txn, self._known, name, relations)
        return removal

    def reads(self, name: str) -> bool:
        """Return whether rules that are left read a relation."""
        said = recorded_dependants(self.txn.catalog.properties).get(HOST)
        return said is not None and name in said.reads


# -- installing or replacing a block

# the options of `install`, whether a block may be replaced, the watched views, whether views are
# refused that are evaluated anew, and what edits relations
How = tuple[Options, bool, Container[str], bool, Callable[[Transaction], None] | None]


def install_part(
    txn: StoreTransaction, known: KnownRules, whole: bool, name: str, given: Given, *how: *How
) -> Installation:
    """Install as `install` does over the rules that this concerns: what the new ones read, define
    and edit, and what they replace; over all if `whole`, and if these refuse it, since the error
    that is raised then knows all names.
    """
    rules = known.saved(txn)
    if rules.are_linked and not whole:
        with suppress(RuleError, UninstallError), txn.savepoint():
            program = parsed(given, name)
            names = names_in(program)
            blocks = rules.concerned(name, names)
            if any(isinstance(statement, Change) for statement in program.statements):
                blocks |= rules.needed((), names)
            return install(txn, rules.part(txn, blocks), name, given, *how)
    return install(txn, known.of(txn), name, given, *how)


def install(
    txn: StoreTransaction,
    before: Installed,
    name: str,
    given: Given,
    options: Options,
    replace: bool,
    watched: Container[str],
    strict: bool,
    edit: Callable[[Transaction], None] | None = None,
) -> Installation:
    """Install a block over the rules `before`, fill new and changed views, and run the edits.

    The edits are the text's, then those of `edit`.  `watched` are the views whose changes are
    reported. Raises RuleError, MaintainError, EditError; UninstallError if other blocks read what a
    replaced block no longer has.
    """
    if before.block(name) and not replace:
        raise RedefinitionError(
            Where(name, 1, 1),
            f"a block `{name}` is installed; replace it (replace=True, `ivm install --replace`), "
            "uninstall it first, or choose another name",
        )
    after, edits = _with_block(txn, before, name, given, options)
    kept = kept_of(before, after)
    new = {view for rule in after.rules for view in rule.writes} - kept.views
    scans = {view: txn[view].scans for view in new & before.derived_trees if view in txn}
    patching = _patched(txn, before, after, kept, strict)
    after = patching.installed
    engine = Engine(
        txn, after, Encoder(txn), txn.threads, watched=watched, built=patching.built, strict=strict
    )
    engine.fill_views([rule for rule in after.rules if not kept.views.issuperset(rule.writes)])
    after = engine.installed
    _restore_scans(txn, scans)
    collected = Transaction(txn, after, None)
    collected.edit(edits)
    if edit is not None:
        edit(collected)
    collected._apply_by(engine)
    refuse_violations(txn, after, after.constraints)
    after = engine.installed  # the edits may have needed deferred indices
    saved = save(txn, after, engine.built)
    alike = {view for view in before.program.predicates if _has_form(before, after, view)}
    views = {view for rule in after.rules for view in rule.writes} & alike
    changes = {view: _change(txn, after, view, view) for view in views if view in watched}
    for name in (name for name in alike if name in watched):
        if before.whole(name) != after.whole(name):  # a relation has got rules, or lost them
            changes[after.whole(name)] = _change(txn, after, before.whole(name), after.whole(name))
    evaluated = frozenset(
        view for view in new | engine.evaluated | patching.evaluated if not is_made(view)
    )
    return Installation(
        saved, after, engine, evaluated, changes, frozenset(before.program.predicates) - alike
    )


def _patched(
    txn: StoreTransaction, before: Installed, after: Installed, kept: Kept, strict: bool
) -> Engine:
    """Change the trees of a version to those of other rules; return the engine that has changed
    the kept views.
    """
    fill = Fill(Context(txn, before, Encoder(txn), txn.threads, recording=False))
    removed = {
        view: [
            _taken_out(*edits)
            for parts in fill.contributions(patch.removed).values()
            for edits in parts
        ]
        for view, patch in kept.patches.items()
    }
    built = rearrange(txn, before, after, kept)
    engine = Engine(txn, after, Encoder(txn), txn.threads, built=built, strict=strict)
    if kept.patches:
        engine.patch(kept, removed)
    return engine


def _taken_out(actions: np.ndarray, rows: np.ndarray) -> Edits:
    """Return the edits that undo those of a rule: of constants' rows, or counts of derivations."""
    if (actions == INSERT).all():
        return np.full_like(actions, ERASE), rows
    return actions, np.concatenate([rows[:-1], -rows[-1:]])


def compiled(
    sketch: StoreTransaction, before: Installed, texts: Mapping[str, str]
) -> list[tuple[str, RuleError | UninstallError | RuleWarning]]:
    """Compile texts as if they were installed one after the other; return their errors and
    warnings, by name.
    """
    findings: list[tuple[str, RuleError | UninstallError | RuleWarning]] = []
    for name, text in texts.items():
        try:
            before = _with_block(sketch, before, name, text, PLAIN)[0]
        except (RuleError, UninstallError) as error:
            findings.append((name, error))
            continue
        findings += [
            (name, warning)
            for warning in next(b.part.warnings for b in before.blocks if b.name == name)
        ]
    return findings


def _with_block(
    txn: StoreTransaction, before: Installed, name: str, given: Given, options: Options
) -> tuple[Installed, tuple[Edit, ...]]:
    """Return the rules with a block added or replaced, its readers recompiled, and the text's
    edits.

    Raises RuleError, UninstallError.
    """
    block = before.block(name)
    above = _readers_of(before, block) if block else ()
    left = before.excluding(block, *above) if block else before
    store = _relations(txn, before)
    try:
        after = with_block(given, left, store, name, options, before=before, hinting=True)
    except UnknownPredicateError as error:
        _refuse_circle(error, name, above)
        raise
    part = after.blocks[-1].part
    edits = [edit for edit in part.edits if isinstance(edit, Edit)]
    for edit in part.edits:
        if not isinstance(edit, Edit):
            raise RuleSyntaxError(
                edit.where, "edits from rules are executed, not installed: leave them to exec"
            )
    refuse_foreign_writers([*left.blocks, *above], part)
    if block:
        _refuse_lost(block, part, above)
    for later in above:
        after = _again(store, before, after, later, name)
    return after, (*edits,)


def _relations(txn: StoreTransaction, before: Installed) -> Relations:
    """Return the relations of a transaction, without the views of the rules `before`."""
    return Relations(
        txn, views={n for n, one in before.program.predicates.items() if not one.extensional}
    )


def _options_of(block: Block) -> Options:
    rule = next(iter(block.rules), None)
    return Options(rule.granularity if rule else 1, block.maintenance, block.limits)


def _readers_of(before: Installed, block: Block) -> tuple[Block, ...]:
    """Return the blocks that read a block's predicates, directly or through others, in order."""
    blocks, names = list[Block](), {*block.part.predicates}
    for other in before.blocks:
        if other is not block and names.intersection(
            chain.from_iterable(rule.reads for rule in other.rules)
        ):
            blocks.append(other)
            names |= other.part.predicates.keys()
    return tuple(blocks)


def _refuse_circle(error: UnknownPredicateError, name: str, above: Iterable[Block]) -> None:
    """Raise RecursionRefusedError if the new rules read blocks that read the replaced one."""
    for other in above:
        if (read := error.name) in other.part.predicates:
            raise RecursionRefusedError(
                error.where,
                f"{read} is of block `{other.name}`, which reads block `{name}`: put the rules of "
                "both into one block",
            )


def _refuse_lost(block: Block, part: Program, above: Iterable[Block]) -> None:
    """Raise UninstallError if other blocks read predicates that the new rules do not define."""
    gone = {name for name in block.part.predicates if declared_name(name) not in part.predicates}
    lost = readers(gone, [rule.definition for other in above for rule in other.rules])
    if lost:
        uses = "; ".join(f"{name} is read by {', '.join(views)}" for name, views in lost.items())
        raise UninstallError(
            f"{uses}: the new rules of `{block.name}` have to declare or derive it, or uninstall "
            f"the readers first"
        )


def _again(
    store: Relations, before: Installed, after: Installed, block: Block, replaced: str
) -> Installed:
    """Recompile a block that reads the replaced one; return all rules. Raises RuleError if it no
    longer fits.
    """
    try:
        return with_block(block.text, after, store, block.name, _options_of(block), before=before)
    except RuleError as error:
        reason = f"{error.reason} (block `{block.name}` reads `{replaced}`, whose new rules it does not fit)"
        raise type(error)(error.where, reason) from None


def _restore_scans(txn: StoreTransaction, scans: Mapping[str, Iterable[str]]) -> None:
    """Restore the scans of views whose columns still exist."""
    for view, texts in scans.items():
        for text in texts:
            if view in txn and text not in txn[view].scans:
                with suppress(SchemaError):
                    txn.add_scan(view, text)


def _has_form(before: Installed, after: Installed, name: str) -> bool:
    """Return whether a predicate still exists, with columns of the same types."""
    then, now = (rules.program.predicates.get(rules.whole(name)) for rules in (before, after))
    if then is now:
        return then is not None
    return then is not None and now is not None and now.stored_types == then.stored_types


def _change(txn: StoreTransaction, after: Installed, was: str, view: str) -> Delta:
    """Return how the rows of a rebuilt view differ from those of its old name. O(rows)."""
    old = txn.base.trees[txn.base.catalog.relations[was].spec.tree_id]
    return visible_difference(txn.pages, old, txn.tree(view), after.layouts[view].visible)


# -- relations that get other columns


def refit(
    txn: StoreTransaction, before: Installed, watched: Container[str], changed: Iterable[str]
) -> Installation:
    """Declare relations as the store has them now, and evaluate what follows from the relations
    `changed`.

    Raises as `refitted`, and MaintainError.
    """
    changed, after = {*changed}, refitted(txn, before)
    kept = kept_of(before, after, changed)
    new = {view for rule in after.rules for view in rule.writes} - kept.views
    scans = {view: txn[view].scans for view in new & before.derived_trees if view in txn}
    built = rearrange(txn, before, after, kept)
    engine = Engine(txn, after, Encoder(txn), txn.threads, watched=watched, built=built)
    engine.fill_views([rule for rule in after.rules if rule not in kept.rules])
    after = engine.installed
    refuse_violations(txn, after, new & after.constraints.keys())
    _restore_scans(txn, scans)
    saved = save(txn, after, engine.built)
    changes = {view: _change(txn, after, view, view) for view in new if view in watched}
    return Installation(
        saved,
        after,
        engine,
        frozenset(view for view in new if not is_made(view)),
        changes,
        frozenset(),
    )


def refitted(txn: StoreTransaction, before: Installed) -> Installed:
    """Return the rules with declarations of relations as the store has them now.

    Raises RuleError or EditError if a rule reads a column that has changed, or names all columns of
    a row by position.
    """
    after, store = Installed(partial=before.partial), _relations(txn, before)
    tables = [
        before.program.predicates.get(name)
        for name in tables_of_sql(txn.catalog.properties)
        if name in txn
    ]
    others = [
        table
        for table in tables
        if table and table.extensional and not is_declared(txn, before, table)
    ]
    for block in before.blocks:
        text = _refitted_text(txn, before, block)
        for one in others:
            schema = function_schema(txn[one.name].info)
            text = with_columns_of(text, one, schema.stored, declaration_of(one.name, schema) or "")
        after = with_block(text, after, store, block.name, _options_of(block), before=before)
    for name, predicate in before.program.predicates.items():
        if predicate.extensional and _read_columns(before, name) != _read_columns(after, name):
            raise EditError(f"rules read columns of {name} by their positions, which have changed")
    return after


def _refitted_text(txn: StoreTransaction, before: Installed, block: Block) -> str:
    """Return a block's text, in which relations with other columns now are declared with these."""
    text = block.text
    declared = [
        one for one in block.part.predicates.values() if one.extensional and one.name in txn
    ]
    for predicate in sorted(
        declared, key=lambda predicate: (predicate.where.line, predicate.where.column), reverse=True
    ):
        if is_declared(txn, before, predicate):
            continue
        schema = function_schema(txn[predicate.name].info)
        made = declaration_of(predicate.name, schema)
        if made is None or not _has_all_that_is_read(schema, predicate, before):
            raise EditError(f"rules read a column of {predicate.name} that has changed")
        lines = text.split("\n")
        start = (
            sum(len(line) + 1 for line in lines[: predicate.where.line - 1])
            + predicate.where.column
            - 1
        )
        text = text[:start] + made + text[end_of_statement(text, start) :]
    return text


def is_declared(txn: StoreTransaction, installed: Installed, predicate: Predicate) -> bool:
    """Return whether a relation has the columns that rules declare, a table of SQL no others."""
    name = predicate.name
    with suppress(EditError):
        if name in txn and Relations(txn).layout(predicate) == installed.layouts.get(name):
            columns = function_schema(txn[name].info).stored
            return len(columns) == len(predicate.stored_types) or name not in tables_of_sql(
                txn.catalog.properties
            )
    return False


def end_of_statement(text: str, start: int) -> int:
    """Return where the declaration that starts at a place of a text ends, after its point.

    >>> text = "p[i] = (a, b) -> int(i), decimal(9, 2)(a), `timestamp(UTC)`(b).  q(i) <- p:a[i] = _."
    >>> text[end_of_statement(text, 0) :]
    '  q(i) <- p:a[i] = _.'
    """
    quoted = False
    for place in range(start, len(text)):
        quoted ^= text[place] == "`"
        if text[place] == "." and not quoted:
            return place + 1
    return len(text)


def _has_all_that_is_read(schema: Schema, predicate: Predicate, before: Installed) -> bool:
    """Return whether a relation has the same key as declared, and all values that a rule reads."""
    if predicate.name in before.layouts:
        keys = before.layouts[predicate.name].keys
    else:
        keys = len(predicate.keys)
    columns = dict(zip(predicate.columns, predicate.stored_types, strict=True))
    have = [(column.name, str(column.type)) for column in schema.stored]
    read = {name for reads in _read_columns(before, predicate.name) for name in reads}
    return have[:keys] == [*columns.items()][:keys] and all(
        (name, columns[name]) in have for name in read
    )


def _read_columns(installed: Installed, name: str) -> list[dict[str, str]]:
    """Return, for each atom over a relation in order, the columns that it reads by name, each
    with its term.
    """
    columns = installed.program.predicates[name].columns
    return [
        {
            column: str(term)
            for column, term in zip(columns, atom.terms, strict=True)
            if not (isinstance(term, Var) and term.name in unnamed_in(rule.definition))
        }
        for block in installed.blocks
        for rule in block.rules
        for disjunct in rule.definition.body
        for atom in atoms(disjunct)
        if atom.predicate == name
    ]


# -- uninstalling a block


def uninstall_part(
    txn: StoreTransaction, known: KnownRules, name: str, relations: bool
) -> tuple[SavedRules, Installed, Removal]:
    """Uninstall as `uninstall` does over the rules concerned, or over all as `install_part`."""
    rules = known.saved(txn)
    if rules.are_linked and not relations:
        with suppress(RuleError, UninstallError), txn.savepoint():
            return uninstall(txn, rules.part(txn, rules.bereft(name)), name, relations)
    return uninstall(txn, known.of(txn), name, relations)


def uninstall(
    txn: StoreTransaction, before: Installed, name: str, relations: bool
) -> tuple[SavedRules, Installed, Removal]:
    """Remove a block with its views, with `relations` also those it declares; return saved rules,
    rules and removal.

    A block that reads a relation which stays declares it from now on. Raises UninstallError if
    other blocks read a view, or a relation to be removed.
    """
    block = before.block(name)
    if block is None:
        known = ", ".join(b.name for b in before.blocks) or "none"
        raise UninstallError(f"no block `{name}` is installed; there is {known}")
    gone = block.part.predicates.keys() - stored_before(block.text) if relations else set()
    handed = _handed_over(before, block, gone)
    left = handed.excluding(handed.blocks[before.blocks.index(block)])
    rows = {n: len(txn[n]) for n in block.part.predicates if n in txn and not is_made(n)}
    declared = {n for n in rows if block.part.predicates[n].extensional}
    dropped = declared & gone
    saved = save(txn, left, rearrange(txn, before, left, kept_of(before, left)))
    for relation in dropped:
        txn.drop(relation)
    forget(txn, name)
    return (
        saved,
        left,
        Removal(
            {n: count for n, count in rows.items() if n not in declared},
            {n: count for n, count in rows.items() if n in dropped},
            {n: count for n, count in rows.items() if n in declared - dropped},
        ),
    )


def _handed_over(before: Installed, block: Block, gone: Container[str]) -> Installed:
    """Return rules in which the first other block that reads a relation declares it, in place of
    `block`.

    Raises UninstallError for a relation that is `gone`.
    """
    blocks = {other.name: other for other in before.blocks}
    for one in before.blocks:
        read = (
            {name for rule in one.rules for name in rule.reads} if one is not block else set[str]()
        )
        for name in sorted(read & blocks[block.name].part.predicates.keys()):
            predicate = block.part.predicates[name]
            if not predicate.extensional:
                continue
            if name in gone:
                raise UninstallError(
                    f"{name} is read by block `{one.name}`: uninstall that block first, or keep "
                    f"the relation"
                )
            predicates = dict(blocks[block.name].part.predicates)
            del predicates[name]
            blocks[block.name] = _with_predicates(blocks[block.name], predicates)
            heir = _with_predicates(
                blocks[one.name], {**blocks[one.name].part.predicates, name: predicate}
            )
            blocks[one.name] = replace(heir, text=declaring(heir.text, predicate))
    return replace(before, blocks=tuple(blocks.values()))


def _with_predicates(block: Block, predicates: Mapping[str, Predicate]) -> Block:
    return replace(block, part=replace(block.part, predicates=predicates))


# -- warnings


def warn(said: Iterable[RuleWarning], stacklevel: int = 3) -> None:
    """Issue the warnings of a text, attributed to the caller of a workspace's method."""
    for warning in said:
        warnings.warn(warning, stacklevel=stacklevel)
