"""`ivm completion bash` and `pagestore completion zsh`: a script that completes commands,
options and files.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence

from .answers import tell

Tree = Mapping[str, tuple[str, Sequence[str]]]  # for each command what it does, and its options
BASH = """\
_{program}() {{
    local word=${{COMP_WORDS[COMP_CWORD]}}
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$word"))
    elif [[ $word == -* ]]; then
        case ${{COMP_WORDS[1]}} in
{cases}
        esac
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}}
complete -o filenames -F _{program} {program}"""
ZSH = """\
#compdef {program}
local -a commands
commands=(
{commands}
)
if (( CURRENT == 2 )); then
    _describe command commands
    return
fi
case $words[2] in
{cases}
esac
_files"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "shell", choices=["bash", "zsh", "fish"], help="the shell that runs the script"
    )


def run(options: argparse.Namespace) -> int:
    """Print the script; return the exit code."""
    write = {"bash": bash, "zsh": zsh, "fish": fish}[options.shell]
    tell(write(options.program, options.tree()))
    return 0


def bash(program: str, tree: Tree) -> str:
    """Return the script for bash, which is sourced."""
    cases = [
        f'        {name}) COMPREPLY=($(compgen -W "{" ".join(given)}" -- "$word")) ;;'
        for name, (_, given) in tree.items()
    ]
    return BASH.format(program=program, commands=" ".join(tree), cases="\n".join(cases))


def zsh(program: str, tree: Tree) -> str:
    """Return the script for zsh, a file of its $fpath whose name begins with an underscore."""
    commands = [f"    {_quoted(f'{name}:{said}')}" for name, (said, _) in tree.items()]
    cases = [f"    {name}) compadd -- {' '.join(given)} ;;" for name, (_, given) in tree.items()]
    return ZSH.format(program=program, commands="\n".join(commands), cases="\n".join(cases))


def fish(program: str, tree: Tree) -> str:
    """Return the script for fish, a file of ~/.config/fish/completions."""
    lines = []
    for name, (said, given) in tree.items():
        lines.append(f"complete -c {program} -n __fish_use_subcommand -a {name} -d {_quoted(said)}")
        seen = f"'__fish_seen_subcommand_from {name}'"
        lines += [
            f"complete -c {program} -n {seen} -l {option.removeprefix('--')}"
            for option in given
            if option.startswith("--")
        ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"


def options_of(add: Callable[[argparse.ArgumentParser], None]) -> list[str]:
    """Return the options that a command's function adds to a parser."""
    parser = argparse.ArgumentParser()
    add(parser)
    return [text for action in parser._actions for text in action.option_strings]  # noqa: SLF001 - it shows them nowhere
