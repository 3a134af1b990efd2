"""What is wrong with a YAML text, in one line."""

import yaml


def problem_line(problem: yaml.YAMLError) -> str:
    """Line, column and what is wrong there."""
    if not isinstance(problem, yaml.MarkedYAMLError) or problem.problem_mark is None:
        return " ".join(str(problem).split())
    mark = problem.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem.problem or problem.context}"
