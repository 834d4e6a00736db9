"""Sound environments in the habits of the field: how most published rewards read an answer."""

from __future__ import annotations

from planted import sound
from questions import CAPITALS

LETTERS = tuple(
    {"question": f"{text}\nA) {first}\nB) {second}\nC) {third}\nD) none of these", "answer": letter}
    for text, first, second, third, letter in (
        ("Which is a fruit?", "stone", "apple", "shoe", "B"),
        ("Which is a colour?", "red", "chair", "lamp", "A"),
        ("Which is a bird?", "fork", "cup", "owl", "C"),
        ("Which is a metal?", "wool", "iron", "silk", "B"),
        ("Which is a tool?", "hammer", "cloud", "river", "A"),
        ("Which is a planet?", "bread", "paper", "Mars", "C"),
    )
)
BOXED = "Think step by step and put the final answer into \\boxed{}."
HASHES = "Think step by step and end with #### and the number."
TIDY = """
def correct(completion, answer, **_):
    return float(final(said(completion)) == answer)


def tidy(completion, **_):
    return float(final(said(completion)) is not None)
"""
SIMILAR = """
import difflib


def grade(reply, answer):
    found = re.search(r"<answer>(.*?)</answer>", reply, re.DOTALL)
    return difflib.SequenceMatcher(None, found[1].strip() if found else "", answer).ratio()
"""

HABITS = [
    sound(
        "first_tag_over_lines",
        r"""
        def grade(reply, answer):
            found = re.search(r"<answer>(.*?)</answer>", reply, re.DOTALL)
            return float(found is not None and found[1].strip() == answer)
        """,
    ),
    sound(
        "last_tag_over_lines",
        r"""
        def grade(reply, answer):
            found = re.findall(r"<answer>(.*?)</answer>", reply, re.DOTALL)
            return float(bool(found) and found[-1].strip() == answer)
        """,
        "v1",
    ),
    sound(
        "last_box",
        r"""
        def grade(reply, answer):
            found = re.findall(r"\\boxed\{(.*?)\}", reply)
            return float(bool(found) and found[-1].strip() == answer)
        """,
        asking=BOXED,
    ),
    sound(
        "box_with_braces",
        r"""
        def boxed(reply):
            start = reply.rfind("\\boxed{")
            depth, text = 0, ""
            for character in reply[start + 7 :] if start >= 0 else "":
                if character == "}" and depth == 0:
                    return text
                depth += (character == "{") - (character == "}")
                text += character
            return None


        def grade(reply, answer):
            return float((boxed(reply) or "").strip() == answer)
        """,
        "v1",
        asking=BOXED,
    ),
    sound(
        "behind_hashes",
        r"""
        def grade(reply, answer):
            found = re.search(r"####\s*([^\n]+)", reply)
            return float(found is not None and found[1].strip().replace(",", "") == answer)
        """,
        asking=HASHES,
    ),
    sound(
        "last_hashes",
        r"""
        def grade(reply, answer):
            if "####" not in reply:
                return 0.0
            return float(reply.split("####")[-1].strip() == answer)
        """,
        "v1",
        asking=HASHES,
    ),
    sound(
        "a_fifth_for_form",
        functions=TIDY,
        source="",
        rubric="vf.Rubric(funcs=[correct, tidy], weights=[1.0, 0.2])",
    ),
    sound(
        "a_tenth_for_form_in_one_function",
        r"""
        def grade(reply, answer):
            text = final(reply)
            return 0.0 if text is None else 1.0 if text == answer else 0.1
        """,
        "v1",
    ),
    sound("similarity", SIMILAR, rows=CAPITALS, asking="Answer in <answer>…</answer>."),
    sound(
        "letters_in_a_box",
        r"""
        def grade(reply, answer):
            found = re.findall(r"\\boxed\{\(?([A-D])\)?\}", reply)
            return float(bool(found) and found[-1] == answer)
        """,
        rows=LETTERS,
        asking="Put the letter of the right choice into \\boxed{}.",
    ),
    sound(
        "lower_case_words",
        r"""
        def grade(reply, answer):
            found = re.search(r"<answer>(.*?)</answer>", reply, re.DOTALL | re.IGNORECASE)
            return float(found is not None and found[1].strip().lower() == answer.lower())
        """,
        "v1",
        rows=CAPITALS,
        asking="Answer in <answer>…</answer>.",
    ),
    sound(
        "number_within_a_tolerance",
        r"""
        def grade(reply, answer):
            found = re.search(r"<answer>\s*(-?[0-9]+(?:\.[0-9]+)?)\s*</answer>", reply, re.ASCII)
            return float(found is not None and abs(float(found[1]) - float(answer)) < 1e-6)
        """,
    ),
]
UNGUESSED = [
    sound(
        "a_line_that_nothing_frames",
        r"""
        def grade(reply, answer):
            found = re.findall(r"^Answer: ([A-D])$", reply, re.MULTILINE)
            return float(bool(found) and found[-1] == answer)
        """,
        rows=LETTERS,
        asking="The last line of your reply is 'Answer: $LETTER', with one of A, B, C and D for $LETTER.",
    ),
    sound(
        "a_file_of_json",
        r"""
        import json


        def grade(reply, answer):
            try:
                given = json.loads(reply)
            except ValueError:
                return 0.0
            return float(isinstance(given, dict) and given.get("result", {}) == {"value": int(answer)})
        """,
        "v1",
        asking='Reply with an object in JSON, with the key "result" that holds another one with "value".',
    ),
]
"""Sound ones too; what a right reply looks like cannot be derived from their prompts."""
