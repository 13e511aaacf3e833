"""Builds a W&B workspace and a report from `panels`, and sends them."""

from collections.abc import Sequence
from typing import Any

from decent_core.tracking.panels import Curves, Finals, TaskPlots, columns, sections

NAME = "Decent-Bench"


def check_installed() -> None:
    """Raises ValueError if the package that describes workspaces is missing."""
    try:
        import wandb_workspaces.workspaces  # noqa: F401
    except ImportError as error:
        raise ValueError(f"the dashboard needs {error.name}, which make setup installs") from None


def build(entity: str, project: str, tasks: Sequence[TaskPlots]) -> tuple[Any, Any]:
    """The workspace and the report for runs of these tasks, in this process alone."""
    import wandb_workspaces.reports.v2 as reports
    import wandb_workspaces.workspaces as workspaces

    workspace = workspaces.Workspace(
        entity=entity,
        project=project,
        name=NAME,
        sections=[
            workspaces.Section(name=name, panels=_panels(name, plots), is_open=True)
            for name, (_, plots) in sections(tasks).items()
        ],
        runset_settings=workspaces.RunsetSettings(
            groupby=[workspaces.Metric("Group")], pinned_columns=[f"summary:{name}" for name in columns(tasks)]
        ),
    )
    blocks: list[Any] = [
        reports.P("Each run is one training run, with its configuration, metrics and record. Tables with intervals and "
                  "published values are made from the records, by make report."),
    ]  # fmt: skip
    for name, (text, plots) in sections(tasks).items():
        runs = reports.Runset(name="All runs by item and method", groupby=["group", "job_type"])
        blocks += [
            reports.H1(name), reports.P(text), reports.PanelGrid(runsets=[runs], panels=_panels(name, plots))
        ]  # fmt: skip
    return workspace, reports.Report(entity=entity, project=project, title=NAME, blocks=blocks, width="fluid")


def send(workspace: Any, report: Any) -> list[str]:
    """Add both to their project; returns their addresses."""
    import wandb

    wandb.setup(wandb.Settings(silent=True))
    instead = "or give out=FILE to write the dashboard without a server"
    try:
        logged_in = wandb.login(prompt=False)
        addresses = [workspace.save().url, report.save().url] if logged_in else []
    except Exception as error:  # noqa: BLE001  (W&B has many kinds, and a server many ways to refuse)
        raise ValueError(f"W&B did not take it: {' '.join(str(error).split())} Try again, {instead}") from None
    if not logged_in:
        raise ValueError(f"W&B knows no account here: log in with `wandb login`, {instead}")
    return addresses


def as_plain(part: Any) -> dict[str, Any]:
    """What would be sent of a workspace or a report, as plain values."""
    return part._to_model().model_dump(mode="json", by_alias=True, exclude_none=True)


def _panels(section: str, plots: Sequence[Curves | Finals]) -> list[Any]:
    """The section's plots, three in a row of W&B's 24 columns; beside the metrics, the table that compares runs."""
    import wandb_workspaces.reports.v2 as reports

    panels: list[Any] = [
        reports.LinePlot(title=plot.title, x=plot.x, y=list(plot.metrics))
        if isinstance(plot, Curves)
        else reports.BarPlot(title=plot.title, metrics=list(plot.metrics))
        for plot in plots
    ]
    if section == "Metrics":
        panels.append(reports.RunComparer(diff_only="split"))
    for index, panel in enumerate(panels):
        panel.layout = reports.Layout(x=8 * (index % 3), y=6 * (index // 3), w=8, h=6)
    return panels
