"""`envops rewards`: the rewards gate, or one of the questions that its flags ask."""

from __future__ import annotations

import argparse
import sys

from envops import exit_codes


def run(options: argparse.Namespace) -> int:
    """The gate without flags; with one of them, its answer."""
    asked = [flag for flag in ("against", "explain", "reply") if getattr(options, flag) is not None]
    if len(asked) > 1:
        print(f"--{asked[0]} and --{asked[1]} are two questions: ask one at a time", file=sys.stderr)
        return exit_codes.USAGE
    if not asked and options.task is not None:
        print("--task belongs to --reply: envops rewards NAME --reply TEXT --task 3", file=sys.stderr)
        return exit_codes.USAGE
    if asked == ["against"]:
        from envops.cli.rewards_against import run as against

        return against(options)
    if asked == ["explain"]:
        from envops.cli.rewards_explain import run as explain

        return explain(options)
    if asked == ["reply"]:
        from envops.cli.rewards_reply import run as reply

        return reply(options)
    from envops.cli.validate import run as validate

    return validate(options)
