"""The bar of a grading: how many copies are recorded, how fast, and what time is left."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

WINDOW_S = 120.0  # of the speed that counts: kept results at the start go by much faster than the others


class Rate(ProgressColumn):
    """Copies a minute, of late."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{60 * speed:.1f} copies/min" if speed else "", style="progress.data.speed")


def class_bar(console: Console) -> Progress:
    """A bar on `console`, gone at the end. What it says is plain text: students choose their names."""
    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), Rate(),
        TimeRemainingColumn(), console=console, transient=True, speed_estimate_period=WINDOW_S,
    )  # fmt: skip
