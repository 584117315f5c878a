"""For ``evaluate.load("PATH/metrics/hf_evaluate.py", "semantic_repeatability")``.

The second argument is the name of any metric that ``lmrel ls metrics`` lists. Importing this file
brings in the rest of the package, which the statistics beside it do without.
"""

from lmrel_tasks.evaluate_modules import RepeatedRuns

__all__ = ["RepeatedRuns"]
