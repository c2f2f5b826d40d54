"""A prompt for statements on several lines: history across sessions, completion of names, colours
of rules.

ivm> total[c] = t <- agg<<t = sum(a)>>
...> paid[c, _] = a.                        Tab completes names of relations, views and columns
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer

from .highlight import LogiqlLexer

QUOTED = r"\"[^\"]*\"|`[^`]*`"
# the last of a text
WORD = re.compile(rf"(?:[^\"`]|{QUOTED})*?(\"[^\"]*|`[^`]*|[.:]?(?:[\w:$]|{QUOTED})*)", re.DOTALL)
# an empty line after either ends both
HINT = "not ended yet: a rule ends with a full stop, SQL with ;"


def statements(ends: Callable[[str], bool], names: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Yield what a user enters, each text once `ends` says it is whole; Ctrl-C clears it, Ctrl-D
    ends.

    `names` are offered for completion, spelled as a text before the cursor needs it.
    """
    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer, text = event.current_buffer, event.current_buffer.text
        # an empty line after what seems an end
        given_up = text.endswith("\n") and text.rstrip().endswith((";", "."))
        if not text.strip() or ends(text) or given_up:
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    session: PromptSession[str] = PromptSession(
        history=_history(),
        completer=_Names(names),
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        lexer=PygmentsLexer(LogiqlLexer),
        key_bindings=keys,
        multiline=True,
        prompt_continuation=lambda width, number, wrapped: "...> ",
        rprompt=lambda: HINT if "\n" in session.default_buffer.text else "",
    )
    while True:
        try:
            text = session.prompt([("ansicyan", "ivm> ")]).strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text:
            yield text


def _history() -> History:
    """Return the history of earlier sessions, in memory where no file can hold it."""
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "ivm"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "history"
        path.touch(mode=0o600)
        return FileHistory(str(path))
    return InMemoryHistory()


class _Names(Completer):
    """Completes the word before the cursor, or the name in quotes that is open there."""

    def __init__(self, names: Callable[[str], Iterable[str]]) -> None:
        self._names = names

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield the names that begin with the word, whatever the case of its letters."""
        match = WORD.fullmatch(document.text_before_cursor)
        word = match[1] if match else ""
        begun = _bare(word)
        for name in sorted(dict.fromkeys(self._names(document.text))) if begun else ():
            if _bare(name).startswith(begun) and name != word:
                yield Completion(name, -len(word))


def _bare(name: str) -> str:
    """Return a name without quotes, in small letters."""
    return name.lower().replace('"', "").replace("`", "")
