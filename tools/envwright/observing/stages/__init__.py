"""The stages that have jobs: modules that the table in `facts/stages.py` names."""
