"""What the mails and the reading of JSON promise."""

from itertools import islice

import pytest
from order_form.mails import mails
from order_form.taskset import canonical, final_object


def test_the_same_seed_writes_the_same_mails():
    assert list(islice(mails(3), 100)) == list(islice(mails(3), 100))


def test_no_mail_is_written_twice():
    told = [mail.text for mail in islice(mails(0), 3000)]
    assert len(set(told)) == len(told)


def test_no_placeholder_is_left_in_a_mail():
    assert not any("{" in mail.text for mail in islice(mails(0), 1000))


def test_something_is_always_ordered():
    assert all(mail.order["items"] for mail in islice(mails(0), 1000))


def test_firm_and_city_stand_in_the_mail():
    assert all(mail.order[key] in mail.text for mail in islice(mails(0), 200) for key in ("customer", "city"))


def test_true_is_not_one_and_a_float_is_no_whole_number():
    assert canonical({"a": True}) != canonical({"a": 1})
    assert canonical({"a": 3}) != canonical({"a": 3.0})
    assert canonical({"a": 3, "b": 4}) == canonical({"b": 4, "a": 3})


@pytest.mark.parametrize(
    "answer", ["", "[]", "3", "{'a': 1}", '{"a": 1', '{"a": 1, "a": 2}', "[" * 100_000, "9" * 5000, '{"a": 1} {"a": 1}']
)
def test_what_is_no_object(answer: str):
    assert final_object(f"<answer>{answer}</answer>") is None


def test_spaces_and_thinking_do_no_harm():
    assert final_object('<think>{}</think>So:\n<answer>\n{ "a": 1 }\n</answer>') == {"a": 1}
