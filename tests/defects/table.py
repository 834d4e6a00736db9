"""All planted defects. Add a line to one of the tables, or a table of your own here."""

from __future__ import annotations

from defects_of_answers import ANSWERS
from defects_of_circumstances import CIRCUMSTANCES
from defects_of_company import GROUPS, JUDGES
from defects_of_numbers import NUMBERS

DEFECTS = [*ANSWERS, *NUMBERS, *CIRCUMSTANCES, *GROUPS, *JUDGES]
