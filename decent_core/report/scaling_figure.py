"""The strong scaling published in [P], Figure 6, explained by the runtime model: a picture and, beside it, a table.

Fits computing time, gamma and omega to every cluster's times of an iteration (decent_core.runtime.fit). SGP's rows are
shown but not fitted: another implementation, which does not overlap communication as the model assumes.
"""

from collections.abc import Mapping
from pathlib import Path

from decent_core.records.published import read_published
from decent_core.report.figures import COLOURS
from decent_core.report.plots import label, new_figure, save
from decent_core.runtime.fit import TOLERANCE, Estimate, Fit, fit
from decent_core.system.files import write_atomically

BUCKETS = 7
#: name and topology of published rows -> what the table calls them, and their colour
ALLREDUCE, SGP = ("AllReduce", "complete"), ("SGP", "one_peer_exp")
SHOWN = {
    ALLREDUCE: ("All-Reduce", COLOURS[1]),
    SGP: ("SGP (not fitted)", "#999999"),
    ("Decent", "one_peer_hypercube"): ("gossip, one-peer", COLOURS[0]),
    ("Decent", "aer"): ("gossip, AER", COLOURS[2]),
}
Series = tuple[str, str]
Times = Mapping[int, float]


def write(published: Path, path: Path) -> str:
    """Fit the published times, draw them, write the table beside the picture; returns the table and both paths."""
    clusters = read_clusters(published)
    fits = {name: fit_cluster(series) for name, series in clusters.items()}
    draw(clusters, {name: free for name, (free, _) in fits.items()}, path)
    text = table(clusters, fits)
    write_atomically(path.with_suffix(".md"), text)
    return f"{text}\n{path}\n{path.with_suffix('.md')}"


def read_clusters(path: Path) -> dict[str, dict[Series, dict[int, float]]]:
    """cluster -> (name, topology) -> number of workers -> published ms an iteration."""
    clusters: dict[str, dict[Series, dict[int, float]]] = {}
    for entry in read_published(path):
        if entry.item == "Figure 6" and entry.value is not None:
            series = clusters.setdefault(entry.note.partition(";")[0], {})
            series.setdefault((entry.name, entry.topology), {})[entry.world_size] = entry.value
    return clusters


def fit_cluster(series: Mapping[Series, Times]) -> tuple[Fit, Fit]:
    """The fit with a part of the step that does not shrink with N, and the one without it."""
    gossip = {topology: times for (name, topology), times in series.items() if name == "Decent"}
    return fit(series[ALLREDUCE], gossip, BUCKETS), fit(series[ALLREDUCE], gossip, BUCKETS, with_fixed=False)


def draw(clusters: Mapping[str, Mapping[Series, Times]], fits: Mapping[str, Fit], path: Path) -> Path:
    """Published times as points, fitted ones as lines."""
    figure, panels = new_figure(1, len(clusters), (4.4 * len(clusters), 4.6))
    for panel, (name, series) in zip(panels[0], clusters.items(), strict=True):
        for key, times in series.items():
            text, colour = SHOWN[key]
            panel.plot(list(times), list(times.values()), "o", color=colour, label=text)
            predicted = _predicted(fits[name], key)
            if predicted:
                panel.plot(list(predicted), list(predicted.values()), color=colour, linewidth=1.6)
        label(panel, name, "workers N (global batch fixed)", "ms an iteration" if panel is panels[0, 0] else "")
        panel.set_xscale("log", base=2)
        panel.set_xticks(list(series[ALLREDUCE]), [str(n) for n in series[ALLREDUCE]])
        panel.set_ylim(bottom=0)
        panel.text(
            0.98, 0.03, f"rms {100 * fits[name].rms:.1f} %", transform=panel.transAxes, ha="right", color="#555555"
        )
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle("Published times (points) and the runtime model fitted to them (lines)", fontsize=13, weight="bold")
    return save(figure, path)


def table(clusters: Mapping[str, Mapping[Series, Times]], fits: Mapping[str, tuple[Fit, Fit]]) -> str:
    """Parameters, then published and fitted times, as Markdown."""
    lines = [
        f"In brackets: values with which the rms residual stays within {100 * TOLERANCE:g} percentage point of the",
        "best, if the others make up for them. A wide range says that the data do not determine the parameter.",
        "",
        "| cluster | model | compute / s | fixed / ms | gamma / ms | omega, one-peer | omega, AER | rms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, both in fits.items():
        for shown, found in zip(("with fixed part", "without"), both, strict=True):
            cells = (
                _range(found.compute, 1e-3, 2), _range(found.fixed, 1, 0), _range(found.gamma, 1, 1),
                _range(found.omega["one_peer_hypercube"], 1, 2), _range(found.omega["aer"], 1, 2),
            )  # fmt: skip
            lines.append(f"| {name} | {shown} | {' | '.join(cells)} | {100 * found.rms:.1f} % |")
    lines += ["", "| cluster | | N | published / ms | fitted / ms | residual |", "|---|---|---|---|---|---|"]
    for name, series in clusters.items():
        for key, times in series.items():
            for n, predicted in _predicted(fits[name][0], key).items():
                residual = 100 * (predicted / times[n] - 1)
                lines.append(
                    f"| {name} | {SHOWN[key][0]} | {n} | {times[n]:.1f} | {predicted:.1f} | {residual:+.1f} % |"
                )
    return "\n".join(lines) + "\n"


def _predicted(found: Fit, key: Series) -> dict[int, float]:
    return found.allreduce if key == ALLREDUCE else {} if key == SGP else found.gossip[key[1]]


def _range(estimate: Estimate, unit: float, digits: int) -> str:
    value, low, high = (f"{number * unit:.{digits}f}" for number in (estimate.value, estimate.low, estimate.high))
    return f"{value} ({low} to {high})"
