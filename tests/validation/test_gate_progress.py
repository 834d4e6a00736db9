"""Judgements before all stages have ended."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from envwright.facts.observed import Facts, NetworkAttempt
from envwright.observing.collected_facts import CollectedFacts, ProgressListener
from envwright.observing.job import StageFailed


def test_facts_of_running_stages_are_left_out() -> None:
    seen: list[Facts] = []
    collected = CollectedFacts(ProgressListener(ended=lambda facts: seen.append(facts())), "sums", "k", "d")
    running: Any = NetworkAttempt("example.org:443", "mutation")
    with collected.observing("mutation"):
        collected.add("mutation", "network", running)
        with collected.observing("rewards"):
            pass
    assert [facts.completed for facts in seen] == [("rewards",), ("rewards", "mutation")]
    assert [facts.network for facts in seen] == [(), (running,)]


def test_rollouts_are_left_out_of_facts_before_the_end() -> None:
    seen: list[Facts] = []
    collected = CollectedFacts(ProgressListener(ended=lambda facts: seen.append(facts())))
    collected.asked["blend"] = 128
    with suppress(StageFailed), collected.observing("smoke"):
        collected.add("smoke", "network", NetworkAttempt("example.org:443", "smoke"))
    assert (seen[0].rollouts_asked, seen[0].network) == ({}, ())
    assert collected.facts().rollouts_asked == {"blend": 128}


def test_stage_that_has_looked_counts_as_ended_before_it_ends() -> None:
    seen: list[Facts] = []
    collected = CollectedFacts(ProgressListener(ended=lambda facts: seen.append(facts())))
    with collected.observing("search"):
        collected.take("search", iter([("looked", {})]))
    assert [(facts.completed, "search" in facts.seconds) for facts in seen] == [
        (("search",), False),
        (("search",), True),
    ]
