"""The reference pages are written from the command line and the schema."""

from __future__ import annotations

import argparse

from envwright.cli.docs import render_cli, render_registry


def test_command_reference_has_arguments_and_examples() -> None:
    top = argparse.ArgumentParser()
    commands = top.add_subparsers()
    one = commands.add_parser("weigh", help="weigh things", description="Weigh things.", epilog="examples:\n  weigh x")
    one.add_argument("thing", metavar="THING", help="what to weigh")
    one.add_argument("-n", "--times", metavar="N", help="how often | at most")
    one.add_argument("--exact", action="store_true", help="to the gram")
    one.add_argument("--unit", choices=("g", "kg"), help="in what")
    page = render_cli(top)
    assert "| [weigh](#envwright-weigh) | weigh things |" in page
    assert "| `THING` | what to weigh |" in page
    assert "| `-n N`, `--times N` | how often \\| at most |" in page
    assert "| `--exact` | to the gram |" in page
    assert "| `--unit g or kg` | in what |" in page
    assert "examples:\n  weigh x" in page


def test_registry_reference_has_values_and_meaning_of_keys() -> None:
    share = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
    local = {
        "properties": {
            "gates": {"type": "object", "properties": {"low": {"$ref": "#/$defs/share", "description": "D."}}}
        }
    }
    schema = {
        "required": ["version"],
        "properties": {"version": {"const": 1, "description": "V."}},
        "$defs": {"EnvironmentKeys": local, "ExternalKeys": {}, "RunKeys": {}, "share": share},
    }
    page = render_registry(schema)
    assert "| `version` | `1` | V. Required. |" in page
    assert "| `gates.low` | number, at least 0, less than 1 | D. |" in page
