"""The source of reward code with the speakers that reached each line and its mutants."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from envwright.facts.mutation import CoveredSource, Mutant, Mutation, ToldApart
from envwright.reports.html.compact import lit_sources

TEXT = dedent(
    '''\
    """A module."""
    WORDS = {"seven": 7}

    def grade(reply):
        """The grade."""
        if "<a>" not in reply:
            return 0.0
        try:
            found = number(
                reply,
            )
        except ValueError:
            return 0.0
        match found:
            case 7:
                return 1.0
        return 0.5
    '''
)


def lit(*mutants: Mutant, longest: int = 250_000, text: str = TEXT, **reached: tuple[int, ...]) -> dict[str, Any]:
    covered = CoveredSource("a.py", text, reached, "environments/a/a.py")
    mutation = Mutation(1, 0, "all", 60, 4.0, mutants, sources=(covered,))
    [source] = lit_sources(mutation, longest)
    return source


def marks(source: dict[str, Any]) -> str:
    return "".join(mark for _, _, mark, _ in source["lines"])


def test_lit_source_separates_cases_gate_and_no_conversation() -> None:
    source = lit(cases=(6, 8, 9, 14), oracle=(6, 8, 10, 14, 15, 16), nop=(6, 7))
    assert marks(source) == "-----cg-ccc-nc-gn-"
    assert source["path"] == "environments/a/a.py"


def test_lit_source_function_without_a_call_has_its_own_mark() -> None:
    loading = "def load():\n    return 1\n\ndef grade(reply):\n    if reply:\n        return 1\n    return 0\n"
    assert marks(lit(text=loading, nop=(5, 7))) == "-o--gng-"


def test_lit_source_names_the_speakers_of_a_line_cases_first() -> None:
    source = lit(oracle=(6,), cases=(6,), nop=(6, 7))
    assert source["speakers"] == ["cases", "nop", "oracle"]
    by = {number: source["by"][at] for number, _, _, at in source["lines"]}
    assert by[6] == (0, 1, 2)
    assert by[7] == (1,)
    assert by[2] == ()


def test_lit_source_survivor_has_the_case_that_detects_it() -> None:
    apart = ToldApart(3, ({"role": "assistant", "content": "<a>8</a>"},), {"reward": 0.0}, {"reward": 1.0})
    mutants = (
        Mutant("m1", "flip", "grade", "a.py", 16, "+diff", "survived", apart=apart),
        Mutant("m0", "flip", "grade", "a.py", 6, "+other", "killed", "case 'x'", replacement="in"),
    )
    source = lit(*mutants, cases=(6,))
    assert source["detected"] == [[6, ["flip", "in"]]]
    [survivor] = source["mutants"]
    assert survivor["diff"] == "+diff"
    assert survivor["case"] == '- name: "detects m1"\n  task: 3\n  reply: "<a>8</a>"\n  expect: {reward: 0}'


def test_lit_source_with_little_room_keeps_lines_near_mutants_and_unreached_ones() -> None:
    long = TEXT + "\nX = 1" * 40
    source = lit(Mutant("m", "flip", "grade", "a.py", 40, "", "killed"), longest=300, text=long, cases=tuple(range(18)))
    assert [number for number, *_ in source["lines"]] == list(range(37, 44))
