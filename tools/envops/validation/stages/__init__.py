"""What is seen in each stage: a module for each, named in `facts/stages.py`."""
