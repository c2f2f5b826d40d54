"""How LogiQL is coloured: a lexer of Pygments, by the name `logiql` in documents and the shell."""

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

from pagestore.tooling import KINDS

TYPES = ("int", "float", "boolean", "datetime", *KINDS)


class LogiqlLexer(RegexLexer):
    """Rules, declarations and edits of LogiQL.

    >>> [str(kind) for kind, text in LogiqlLexer().get_tokens("p(x) <- e(x, 3).") if text.strip()][:3]
    ['Token.Name.Function', 'Token.Punctuation', 'Token.Name.Variable']
    """

    name, aliases, filenames = "LogiQL", ["logiql"], ["*.logiql"]
    url = "https://developer.logicblox.com/content/docs4/core-reference/html/index.html"
    tokens = {  # noqa: RUF012
        "root": [
            (r"\s+", Text),
            (r"//.*?$", Comment.Single),
            (r"/\*(.|\n)*?\*/", Comment.Multiline),
            (r'"(\\.|[^"\\])*"', String.Double),
            (r"#\d[^#\n]*#", String.Other),
            (r"\d+(\.\d+)?(e[+-]?\d+)?", Number),
            (r"<<|>>|<-|->", Keyword.Pseudo),
            (words(("agg", "else", "for", "in"), prefix=r"\b", suffix=r"\b"), Keyword),
            (words(("true", "false", "null"), prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (words(TYPES, prefix=r"\b", suffix=r"(?=[(\[])"), Keyword.Type),
            (r"`[^`\n]+`", Name),
            (r"[^\W\d][\w$]*(:[^\W\d]\w*)*(?=\s*[(\[])", Name.Function),
            (r"[^\W\d][\w$]*(:[^\W\d]\w*)*", Name.Variable),
            (r"[-+*/%^=<>!?]+", Operator),
            (r"[()\[\],.;:]", Punctuation),
            (r".", Text),
        ]
    }
