"""What authors of datasets call their columns, the most telling names first."""

from __future__ import annotations

import re

QUESTION = (
    "question", "problem", "prompt", "query", "instruction", "q", "question_text", "problem_statement", "stem", "task",
    "ctx", "input", "inputs", "sentence", "statement", "claim", "conclusion", "text", "premise", "review", "utterance",
    "description", "content", "user", "source", "frage", "pregunta", "domanda", "pergunta", "问题", "質問", "вопрос",
)  # fmt: skip
ANSWER = (
    "answer", "final_answer", "correct_answer", "answerkey", "answer_key", "gold", "expected_answer", "expected", "a",
    "solution", "target", "label", "ground_truth", "reference", "reference_answer", "canonical_solution", "answers",
    "correct", "output", "response", "completion", "result", "gold_answer", "cop", "class", "category", "sentiment",
    "intent", "code", "correct_option", "answer_idx", "labels", "targets", "assistant", "truth", "verdict", "chosen",
    "solutions", "answers_spans", "final_decision", "decision", "summary", "emotion", "emotions", "antwort",
    "respuesta", "réponse", "reponse", "risposta", "resposta", "答案", "回答", "ответ",
)  # fmt: skip
LAST_WORD = {
    "question": ("question", "problem", "prompt", "query", "instruction", "text"),
    "answer": ("answer", "solution", "label", "output", "response", "result", "target"),
}
"""How names of several words end: `user_question`, `reference_solution`."""
FIELD_ANSWER = ("ground_truth", *ANSWER)
"""Within records the whole solution is often called the answer, and what counts the ground truth."""
CONTEXT = (
    "context", "passage", "document", "article", "background", "paragraph", "story", "support", "hypothesis", "body",
    "input", "facts", "premises", "table", "schema", "code",
)  # fmt: skip
CHOICES = ("choices", "options", "endings", "candidates", "alternatives", "multiple_choice_targets", "answer_choices")
TESTS = (
    "test_list", "tests", "test", "test_cases", "unit_tests", "input_output", "assertions", "asserts", "examples",
    "public_test_cases", "public_tests", "private_test_cases",
)  # fmt: skip
CONVERSATION = ("messages", "conversations", "conversation", "dialog", "dialogue", "chat", "turns", "chosen")
SPEAKER = frozenset(("role", "from", "speaker"))
TOOLS = ("tools", "functions", "available_tools", "function_schemas")
NEVER_ANSWERS = re.compile(
    r"(?:.*_)?(?:id|ids|idx|index|uid|guid|qid|url|uri|link|hash|split|source|source_file|licen[cs]e|timestamp|date"
    r"|meta|meta_info|metadata|extra_info|language|lang|starter_code|dataset|data_source|task_type|kwargs"
    r"|annotator|worker|split_name)\d*"
    r"|uuid\d*|pubid|pmid|isbn|rejected"
)
"""Keys, places and marks of origin, which say nothing about the question."""
DESCRIBES = re.compile(
    r"(?:.*_)?(?:difficulty|level|type|title|subject|subfield|field|topic|domain|area|ability|style|tags|name|author|tema)"
)
"""What is said about a question; an answer only where a few values come again and again and nothing else is left."""
ONE_OPTION = re.compile(
    r"(?:(?:option|choice|opt|op|ending|ans|answer|sol|solution|alternative|candidate)[ _]?)?([a-j]|\d{1,2})",
    re.IGNORECASE,
)
WRONG_OPTION = re.compile(r"(?:distractor|incorrect|wrong)(?:[ _]?answers?)?[ _]?\d*", re.IGNORECASE)
PAIRED = re.compile(r"(.*\D)[12]")
"""One of two texts that are asked about together: `sentence1`, `question_2`."""
