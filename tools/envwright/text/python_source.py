"""Python source as a syntax tree."""

from __future__ import annotations

import ast
import threading
import warnings

UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""The errors of a source that cannot be a program, such as one that is nested too deeply."""
_ONE_AT_A_TIME = threading.Lock()


def parse_python(source: str | bytes) -> ast.Module:
    """The syntax tree of a source, without the warnings that Python has about it.

    One thread parses at a time. Before Python 3.11.8 and 3.12.2, two that parse at once count their recursion together
    and one of them may raise `SystemError`: https://github.com/python/cpython/issues/106905.

    Raises one of `UNPARSABLE` if the source cannot be a program.
    """
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)
