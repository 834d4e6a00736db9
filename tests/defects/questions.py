"""Tasks that several environments of the suite use."""

from __future__ import annotations

from planted import SUMS

REASONED = "Think in <think>…</think>, then give the number in <answer>…</answer>."
CAPITALS = tuple(
    {"question": f"What is the capital of {country}?", "answer": city}
    for country, city in (("France", "Paris"), ("Peru", "Lima"), ("Kenya", "Nairobi"), ("Norway", "Oslo"))
)
LISTS = tuple(
    {"question": f"Sort {shuffled}, ascending.", "answer": answer}
    for shuffled, answer in (("9 3 5", "3, 5, 9"), ("8 1 4", "1, 4, 8"), ("70 20 60", "20, 60, 70"))
)
CHOICES = tuple(
    {"question": f"Which is a {kind}?\nA) rose\nB) robin\nC) granite\nD) salmon", "answer": answer}
    for kind, answer in (("flower", "A"), ("bird", "B"), ("stone", "C"), ("fish", "D"))
)
COPIES = tuple(
    {"question": f"Repeat the word {word}.", "answer": word} for word in ("banana", "kestrel", "umbrella", "quartz")
)
GIVEN_AWAY = tuple({**row, "question": f"{row['question']} The answer is {row['answer']}."} for row in SUMS)
MANY = tuple(
    {"question": f"What is {number} plus 900?", "answer": f"{number + 900:,}" if number == 120 else str(number + 900)}
    for number in range(130)
)
SILENT = tuple(row | {"answer": ""} if number == 60 else row for number, row in enumerate(MANY))
