"""The examples that the help of commands ends with; `load` and `prepare` have their own."""

PAGESTORE = {
    "info": ["info shop.pages", "info shop.pages --json"],
    "stat": ["stat shop.pages"],
    "fsck": ["fsck shop.pages", "fsck shop.pages --deep", "fsck shop.pages --salvage saved.pages"],
    "history": ["history shop.pages", "history shop.pages --limit 10"],
    "diff": ["diff shop.pages 3 7 paid"],
    "tag": [
        "tag shop.pages",
        "tag shop.pages monday",
        "tag shop.pages friday 12",
        "tag shop.pages monday --delete",
    ],
    "branch": ["branch shop.pages", "branch shop.pages trial", "branch shop.pages trial --delete"],
    "merge": ["merge shop.pages trial --dry-run", "merge shop.pages trial --on-conflict theirs"],
    "rebase": ["rebase shop.pages trial --dry-run", "rebase shop.pages trial --onto main"],
    "revert": ["revert shop.pages 12"],
    "cherry-pick": ["cherry-pick shop.pages 12 --into trial"],
    "pull": ["pull shop.pages laptop.pages", "pull shop.pages laptop.pages trial --into main"],
    "push": ["push laptop.pages shop.pages"],
    "vacuum": ["vacuum shop.pages --keep 1 --dry-run", "vacuum shop.pages --keep 1"],
    "compact": ["compact shop.pages"],
    "backup": [
        "backup shop.pages monday.backup",
        "backup shop.pages tuesday.backup --since monday",
    ],
    "dump": ["dump shop.pages -o shop.dump", "dump shop.pages --relation paid -o paid.dump"],
    "restore": ["restore shop.dump new.pages", "restore monday.backup tuesday.backup new.pages"],
    "page": ["page shop.pages 812"],
    "bench": ["bench --quick", "bench --only commit --out results"],
    "print": [
        "print shop.pages",
        "print shop.pages paid --limit 10",
        "print shop.pages paid -o paid.parquet",
    ],
    "delete": [
        "delete shop.pages paid --from ada --to b",
        "delete shop.pages paid --where 'day<2026-01-06'",
    ],
    "drop": ["drop shop.pages paid"],
    "rename": ["rename shop.pages paid payments"],
    "truncate": ["truncate shop.pages paid"],
    "completion": ["completion bash > ~/.pagestore-completion"],
}
IVM = {
    "install": ["install shop.pages shop.logiql", "install shop.pages shop.logiql --replace"],
    "uninstall": ["uninstall shop.pages shop --dry-run", "uninstall shop.pages shop"],
    "exec": [
        "exec shop.pages '+edge(1, 2). -edge(3, 4).'",
        "exec shop.pages - --rows < edits.logiql",
    ],
    "query": [
        "query shop.pages 'q(y) <- edge(1, y).'",
        "query shop.pages - -o out.csv < query.logiql",
    ],
    "sql": ["sql shop.pages 'SELECT count(*) FROM paid'", "sql shop.pages < script.sql"],
    "declare": ["declare shop.pages > declarations.logiql"],
    "print": [
        "print shop.pages",
        "print shop.pages total --at 12",
        "print shop.pages total -o total.parquet",
    ],
    "explain": [
        "explain shop.pages total",
        "explain shop.pages 'q(x) <- edge(x, x).' --html > plan.html",
    ],
    "why": [
        "why graph.pages 'tri(1, 2, 3)'",
        "why shop.pages 'total[\"ada\"]' --at 12",
        "why shop.pages \"SELECT * FROM total WHERE who = 'ada'\"",
        "why shop.pages total --since 12",
    ],
    "make": ["make shop.pages 'total[\"ada\"] = 20'", "make shop.pages --do -- '-overdue(42)'"],
    "check": ["check shop.logiql", "check shop.logiql --store shop.pages --format github"],
    "fsck": ["fsck shop.pages", "fsck shop.pages --repair"],
    "trace": ["trace graph.pages tri", "trace graph.pages tri 3 4 --svg tri.svg"],
    "watch": ["watch shop.pages total"],
    "shell": ["shell shop.pages", "shell shop.pages < statements.txt"],
    "serve": [
        "serve shop.pages",
        "serve shop.pages --port 5433 --read-only",
        "serve shop.pages --mysql 3306",
    ],
    "studio": ["studio shop.pages", "studio shop.pages --read-only --port 8321"],
    "mcp": ["mcp shop.pages", "mcp shop.pages --write"],
    "bench": ["bench --quick"],
    "demo": ["demo", "demo --spark", "demo --keep flights"],
    "completion": ["completion bash > ~/.ivm-completion"],
}
OF = {"pagestore": PAGESTORE, "ivm": IVM}


def epilog(program: str, command: str, more: str) -> str:
    """Return the end of a command's help: its examples, if it has any, then `more`."""
    if command not in OF[program]:
        return more
    lines = "\n".join(f"  {program} {line}" for line in OF[program][command])
    return f"examples:\n{lines}" + (f"\n\n{more}" if more else "")
