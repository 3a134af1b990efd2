"""Releases that judge themselves: a step is judged by metrics of the new and of the stable version.

`sequential_test` is the statistics, `metric_judgement` applies it to metrics, `counter_samples` makes samples from
what `sources` read, `analysis_state` keeps the samples of a step and its verdict. What that means for the release
is decided in `rollouts/step_analysis.py`; the controllers are in `rollouts/analysis_control`.
"""
