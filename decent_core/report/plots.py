"""How pictures are written, and the look of those of the runtime model."""

import io
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from decent_core.system.files import write_atomically

GREY = "#555555"


def new_figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, np.ndarray]:
    """A figure of `size` inches and its panels [rows, columns]."""
    figure, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
    for panel in panels.flat:
        panel.grid(alpha=0.25, linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels


def label(panel: Any, title: str, x: str, y: str) -> None:
    """Title and axes of one panel."""
    panel.set_title(title, loc="left", weight="bold", fontsize=11)
    panel.set_xlabel(x)
    panel.set_ylabel(y)


def save(figure: Any, path: Path, dpi: int = 150) -> Path:
    """Write the figure as PNG; ValueError if the path says something else. The file depends on the data alone."""
    if path.suffix != ".png":
        raise ValueError(f"out={path}: must end in .png")
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=dpi, metadata={"Software": None})
    plt.close(figure)
    write_atomically(path, image.getvalue())
    return path
