"""What the guest lists and the reading of lists promise."""

from itertools import islice

import pytest
import verifiers.v1 as vf
from alphabet_sort.people import KEYS, NAMES, guests
from alphabet_sort.taskset import final_list


def test_the_same_seed_invites_the_same_guests():
    assert list(islice(guests(3, 4), 100)) == list(islice(guests(3, 4), 100))


def test_another_seed_invites_other_guests():
    assert list(islice(guests(1, 4), 100)) != list(islice(guests(2, 4), 100))


def test_nobody_shares_a_name():
    for party in islice(guests(0, 8), 500):
        people = [person.split() for batch in party.batches for person in batch]
        assert len({first for first, _ in people}) == len({last for _, last in people}) == len(people)


def test_names_are_plain_enough_to_be_sorted_in_one_way_only():
    names = [*NAMES["first"], *NAMES["last"]]
    assert all(name.isascii() and name.isalpha() and name == name.capitalize() for name in names)
    assert len(set(names)) == len(names)


def test_the_first_batch_is_never_in_order_already():
    assert all(party.batches[0] != party.sorted_lists()[0] for party in islice(guests(0, 4), 500))


def test_each_list_holds_everyone_so_far_in_order():
    for party in islice(guests(0, 4), 200):
        for turn, listed in enumerate(party.sorted_lists(), start=1):
            assert sorted(listed) == sorted(person for batch in party.batches[:turn] for person in batch)
            keys = [KEYS[party.key](person) for person in listed]
            assert keys == sorted(keys)


def test_conversations_have_between_two_and_the_most_turns():
    assert {len(party.batches) for party in islice(guests(0, 4), 300)} == {2, 3, 4}


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Ada Berg",
        "<names>Ada Berg",
        "</names>Ada Berg<names>",
        "<names>Ada Berg</names><names>Ada Berg</names>",
        "<think><names>Ada Berg</names></think>",
        "<think><names>Ada Berg</names>",
    ],
)
def test_replies_without_one_final_list(reply: str):
    assert final_list(reply) is None


def test_a_list_is_read_line_by_line():
    assert final_list("Sure!\n<names>\n Ada Berg\n\nBela Cohen </names>") == ["Ada Berg", "Bela Cohen"]


def test_there_is_a_follow_up_for_every_turn_but_the_first():
    config = vf.taskset_config_type("alphabet_sort").model_validate({"id": "alphabet_sort", "num_tasks": 50})
    tasks = list(vf.load_taskset(config))
    assert len({task.data.prompt for task in tasks}) == 50
    assert all(len(task.data.follow_ups) == len(task.data.sorted_lists) - 1 for task in tasks)


def test_the_package_brings_its_own_environment():
    config = vf.resolve_env_config({"taskset": {"id": "alphabet_sort"}})
    assert type(vf.load_environment(config)).__name__ == "AlphabetSortEnv"
