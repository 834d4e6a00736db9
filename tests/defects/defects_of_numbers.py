"""Rewards that raise, return no number, or return one outside of the declared range."""

from __future__ import annotations

from planted import SUMS, planted

NUMBERS = [
    planted(
        "raises_on_empty",
        "RWD020",
        r"""
        def grade(reply, answer):
            return float(re.search(r"<answer>([^<]*)</answer>", reply)[1] == answer)
        """,
    ),
    planted(
        "raises_on_words",
        "RWD020",
        "def grade(reply, answer):\n    return float(int(final(reply) or 0) == int(answer))",
        "v1",
    ),
    planted(
        "raises_on_superscripts",
        "RWD020",
        """
        def grade(reply, answer):
            said = final(reply) or ""
            return float(said.isdigit() and len(said) < 9 and int(said) == int(answer))
        """,
    ),
    planted(
        "raises_on_long_numbers",
        "RWD020",
        """
        def grade(reply, answer):
            said = final(reply) or ""
            return float(said.isdecimal() and int(said) == int(answer))
        """,
        "v1",
    ),
    planted(
        "not_a_number",
        "RWD021",
        """
        def grade(reply, answer):
            said = final(reply)
            return float("nan") if said is None else float(said == answer)
        """,
        "v1",
    ),
    planted("none", "RWD022", "def grade(reply, answer):\n    if final(reply) == answer:\n        return 1.0"),
    planted(
        "text_for_a_number",
        "RWD022",
        'def grade(reply, answer):\n    return "1" if final(reply) == answer else 0.0',
        "v1",
    ),
    planted("above_the_maximum", "RWD030", "def grade(reply, answer):\n    return 2.0 * (final(reply) == answer)"),
    planted(
        "below_the_minimum",
        "RWD030",
        "def grade(reply, answer):\n    return 1.0 if final(reply) == answer else -1.0",
        "v1",
    ),
    planted(
        "hangs_on_silence",
        "RWD023",
        """
        import time


        def grade(reply, answer):
            while not reply.strip():
                time.sleep(0.05)
            return float(final(reply) == answer)
        """,
        rows=SUMS[:2],
    ),
    planted(
        "form_pays_too_much",
        "RWD006",
        beside="""
        def tidy(completion, **_):
            return float(final(said(completion)) is not None)
        """,
        rubric="vf.Rubric(funcs=[correct, tidy], weights=[0.5, 0.5])",
    ),
    planted(
        "length_pays",
        "RWD061",
        "def grade(reply, answer):\n    return max(float(final(reply) == answer), min(len(reply) / 1e5, 0.5))",
        "v1",
    ),
    planted(
        "penalty_never_comes",
        "RWD053",
        beside="""
        def rambling(completion, **_):
            return float(len(said(completion)) < 0)
        """,
        rubric="vf.Rubric(funcs=[correct, rambling], weights=[1.0, -0.5])",
    ),
    planted(
        "metric_missing_at_times",
        "RWD078",
        generation="v1",
        beside="""
        @vf.metric
        async def size(self, trace) -> dict[str, float]:
            return {"size": float(len(final(trace.last_reply)))} if final(trace.last_reply) else {}
        """,
    ),
    planted(
        "plain_function_for_a_coroutine",
        "RWD020",
        generation="v1",
        functions="""
        @vf.reward(weight=1.0)
        def correct(self, trace) -> float:
            return float(final(trace.last_reply) == self.data.answer)
        """,
    ),
]
