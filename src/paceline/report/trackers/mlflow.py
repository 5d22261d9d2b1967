"""MLflow: figures as metrics of a run."""

from collections.abc import Mapping


class MLflow:
    """Logs to the run of that id, or to the active one; where none is, MLflow begins one."""

    def __init__(self, run_id: str | None = None) -> None:
        import mlflow

        self._mlflow, self._run_id = mlflow, run_id

    def __call__(self, figures: Mapping[str, float], step: int) -> None:
        self._mlflow.log_metrics(dict(figures), step=step, run_id=self._run_id)
