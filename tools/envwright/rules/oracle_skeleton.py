"""The oracle that an author has to write: a function for each agent that lacks one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envwright_worker.messages import text_of
from envwright_worker.policies.oracle import PER_AGENT

from envwright.facts.observed import Agent

if TYPE_CHECKING:
    from envwright.facts.observed import Facts

LONGEST_LINE = 100


def agents_without_oracle(facts: Facts) -> list[Agent]:
    """The agents that got a neutral reply for lack of a reference reply, and those whose turn never came."""
    lacking = [agent for agent in facts.agents if not agent.has_oracle]
    seen = {agent.name for agent in facts.agents}
    declared = facts.description.agents if facts.description and lacking else ()
    return [*lacking, *(Agent(name, is_trained=True, opening=()) for name in declared if name not in seen)]


def has_several_agents(facts: Facts) -> bool:
    """Whether a reference reply must name its agent."""
    declared = facts.description.agents if facts.description else ()
    return max(len(declared), len(facts.agents)) > 1


def oracle_skeleton(facts: Facts) -> str:
    """tests/oracle.py with the functions to complete; empty if no agent lacks a reference reply."""
    several = has_several_agents(facts)
    return "\n\n".join(_function(agent, several=several) for agent in agents_without_oracle(facts))


def functions_to_write(facts: Facts) -> str:
    """The names of these functions, for a sentence."""
    several = has_several_agents(facts)
    return ", ".join(f"`{_name(agent, several=several)}(task, messages)`" for agent in agents_without_oracle(facts))


def _name(agent: Agent, *, several: bool) -> str:
    return f"{PER_AGENT}{agent.name}" if agent.name and (several or not agent.is_trained) else "reply"


def _function(agent: Agent, *, several: bool) -> str:
    lines = [f"def {_name(agent, several=several)}(task, messages):"]
    if not agent.is_trained:
        lines.append("    # Part of the environment, and not trained.")
    if not agent.opening:
        lines.append("    # Its turn has not come yet, because another agent had no reply.")
    lines += [f"    # {message['role']}: {_shortened(text_of(message))}" for message in agent.opening]
    if agent.tools:
        lines.append(f"    # Tools: {', '.join(agent.tools)}")
    return "\n".join([*lines, '    return "…"'])


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"
