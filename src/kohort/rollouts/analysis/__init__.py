"""Releases that judge themselves: a step is judged by metrics of the new and of the stable version.

`sequential_test` is the statistics, `metric_judgement` applies it to metrics, `counter_samples` makes samples from
what a source reads, `analysis_state` keeps the samples of a step in an AnalysisRun, and `run_controller` reads the
source once per interval. What the verdict means for the release is decided in `rollouts/step_analysis.py`.
"""
