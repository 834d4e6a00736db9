"""The exit codes of all commands."""

PASS = 0
FAIL = 1
USAGE = 2
"""The command line or a declaration is wrong; nothing was observed."""
INCONCLUSIVE = 3
ERROR = 4
"""The infrastructure failed."""
INTERRUPTED = 130

OF_VERDICT = {"pass": PASS, "fail": FAIL, "inconclusive": INCONCLUSIVE, "error": ERROR}


class CommandError(Exception):
    """Ends a command: its message goes to standard error, and its exit code is returned."""

    code = USAGE

    def __init__(self, message: str = "", code: int | None = None) -> None:
        super().__init__(message)
        self.code = self.code if code is None else code


class ErrorWithFix(CommandError):
    """An error whose message ends with what to do."""

    def __init__(self, message: str, fix: str = "", code: int | None = None) -> None:
        self.message, self.fix = message, fix
        super().__init__(f"{message}\n    fix: {fix}" if fix else message, code)
