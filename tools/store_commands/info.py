"""`pagestore info FILE`: facts about the file, and the relations in it."""

import argparse

from ..cli.answers import answer, common, everything, opened, plain, shown, size, table


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    everything(parser)


def run(options: argparse.Namespace) -> int:
    """Print facts about the store; return the exit code."""
    with opened(options) as store:
        snapshot = store.snapshot()
        chosen = {name: snapshot[name] for name in shown(options, snapshot)}
        bytes_ = store.path.stat().st_size
        relations = {
            name: {
                "rows": len(relation),
                "schema": str(relation.schema),
                "key": list(relation.schema.key),
            }
            for name, relation in chosen.items()
        }
        data = {
            "file": str(store.path), "bytes": bytes_, "page_size": store.page_size,
            "uuid": store.uuid, "version": store.version, "versions": len(store.history()),
            "retain": store.retain, "tags": store.tags, "branches": store.branches,
            "relations": relations, "recovery": str(store.recovery) if store.recovery else None,
        }  # fmt: skip
        lines = [
            f"{store.path}: {size(bytes_)} in pages of {size(store.page_size)}, version "
            f"{store.version}",
            f"{data['versions']} versions are kept ({store.retain}); branches "
            f"{', '.join(map(plain, store.branches))}",
        ]
        if store.tags:
            lines.append(
                "tags "
                + ", ".join(f"{plain(tag)} = {version}" for tag, version in store.tags.items())
            )
        if store.recovery:
            lines.append(str(store.recovery))
        rows = [
            (name, len(relation), ", ".join(relation.schema.key), str(relation.schema))
            for name, relation in chosen.items()
        ]
        lines.append(table(rows, ("relation", "rows", "key", "columns")))
        answer(options, data, "\n".join(lines))
    return 0
