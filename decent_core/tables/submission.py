"""Runs on a Slurm cluster: a job array for each number of nodes, and a job behind them that reports."""

import hashlib
import shlex
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from decent_core.config.load import load
from decent_core.records.identity import item_of
from decent_core.records.provenance import ROOT
from decent_core.system.files import make_folder, write_atomically
from decent_core.tables.cluster import Cluster, load_cluster
from decent_core.tables.jobs import jobs_text
from decent_core.tables.plan import plan
from decent_core.tables.planned_run import PlannedRun


@dataclass(frozen=True)
class SubmitOptions:
    """What is submitted, and where to."""

    cluster: str  # slurm/cluster/<cluster>.env, or a path that ends with .env; example.env explains it
    table: str
    scale: str = "paper"
    seeds: int = 1  # seeds 1 to this
    overrides: list[str] = field(default_factory=list)  # for every run
    dry: bool = False  # print the commands and do nothing


def submit(chosen: SubmitOptions) -> int:
    """Write the jobs file, submit, and say what was submitted; or say what would be."""
    cluster = load_cluster(chosen.cluster)
    if not chosen.dry and shutil.which("sbatch") is None:
        raise ValueError(
            "no sbatch on the path: submit on a node of the cluster that has it, or look first with dry=true"
        )
    found = plan(chosen.table, chosen.scale, chosen.seeds, Path(cluster.folder), chosen.overrides, launched=True)
    for name, reason in found.left_out.items():
        print(f"# left out: {name}: {reason}")
    to_do = [run for run in found.runs if not run.finished()]
    if not to_do:
        print("# nothing to submit: all runs are finished" if found.runs else "# nothing to submit")
        return 0
    for note in notes_on_nodes(to_do, cluster):
        print(f"# {note}")
    submission = Submission(cluster, _file_name(f"{chosen.table}-{chosen.scale}"), to_do)
    if chosen.dry:
        print(shlex.join([cluster.python, "-m", "scripts.tables", *_planning(chosen, cluster, submission.jobs)]))
        submission.show()
    else:
        submission.submit()
    return 0


def _planning(chosen: SubmitOptions, cluster: Cluster, jobs: Path) -> list[str]:
    """The arguments with which scripts.tables writes the jobs file."""
    overrides = [f"overrides=[{','.join(chosen.overrides)}]"] if chosen.overrides else []
    chosen_runs = [f"table={chosen.table}", f"scale={chosen.scale}", f"seeds={chosen.seeds}", f"runs={cluster.folder}"]
    return ["plan", *chosen_runs, *overrides, f"out={jobs}"]


class Submission:
    """The runs of one jobs file: an array for each number of nodes, and the job that collects."""

    def __init__(self, cluster: Cluster, name: str, runs: Sequence[PlannedRun]):
        self.cluster, self.runs = cluster, runs
        self.content = jobs_text(runs)
        folder = Path(cluster.folder)
        # Named by content: a queued array looks its line up when it starts, so no other plan may overwrite the file.
        self.jobs = folder / "jobs" / f"{name}-{hashlib.sha256(self.content.encode()).hexdigest()[:8]}.txt"
        self.name, self.logs, self.results = name, folder / "logs", folder / "results" / name
        self.arrays = self._compose_arrays()

    def show(self) -> None:
        """Print the commands as a shell can run them, after the one that writes the jobs file."""
        print(shlex.join(["mkdir", "-p", str(self.logs)]))  # Slurm starts no job whose log has no folder
        for number, command in enumerate(self.arrays):
            print(f"array{number}=$({shlex.join(command)})")
        ids = ":".join(f"$array{number}" for number in range(len(self.arrays)))
        before, after = self._compose_collect()
        print(f"{shlex.join(before)} --dependency=afterany:{ids} {shlex.join(after)}")

    def submit(self) -> None:
        """Write the jobs file, and give all commands to Slurm."""
        write_atomically(self.jobs, self.content)
        make_folder(self.logs)
        ids = [_sbatch(command) for command in self.arrays]
        before, after = self._compose_collect()
        collect = _sbatch([*before, f"--dependency=afterany:{':'.join(ids)}", *after])
        print(
            f"{len(self.runs)} runs of {self.jobs}: arrays {', '.join(ids)}; job {collect} then writes {self.results}"
        )

    def _compose_arrays(self) -> list[list[str]]:
        """An array's tasks have one shape, and are numbered by their lines in the jobs file."""
        lines: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, run in enumerate(self.runs, 1):
            lines[self.cluster.workers_on_nodes(load(run.overrides).world_size)].append(number)
        return [
            [
                "sbatch", "--parsable", f"--job-name={self.name}", f"--chdir={ROOT}", f"--output={self.logs}/%A_%a.log",
                f"--array={_ranges(numbers)}%{self.cluster.at_once}", f"--nodes={nodes}",
                *self.cluster.array_options(workers),
                "slurm/array.sbatch", str(self.jobs), _with_slash(self.cluster.path), str(workers),
            ]
            for (nodes, workers), numbers in lines.items()
        ]  # fmt: skip

    def _compose_collect(self) -> tuple[list[str], list[str]]:
        """The command before and behind the jobs that it waits for."""
        before = ["sbatch", "--parsable", f"--job-name={self.name}-report", f"--chdir={ROOT}"]
        before += [f"--output={self.logs}/%j.log", *self.cluster.common_options()]
        return before, ["slurm/collect.sbatch", str(self.jobs), _with_slash(self.cluster.path), str(self.results)]


def notes_on_nodes(runs: Sequence[PlannedRun], cluster: Cluster) -> list[str]:
    """Where a topology's nodes are not the cluster's: it mixes as published, and costs other than published."""
    sizes = dict.fromkeys((item_of(run.name), load(run.overrides).local_size) for run in runs)
    return [
        f"{item}: nodes of {size} workers in its topology, of {cluster.workers_per_node} on the cluster"
        for item, size in sizes
        if size not in (1, cluster.workers_per_node)
    ]


def _ranges(numbers: Sequence[int]) -> str:
    """[1, 2, 3, 7] -> `1-3,7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def _file_name(text: str) -> str:
    return text.replace("/", "-").replace("*", "all").replace(" ", "_")


def _with_slash(path: Path) -> str:
    """bash looks for a sourced name without a slash on the PATH."""
    return str(path) if "/" in str(path) else f"./{path}"


def _sbatch(command: list[str]) -> str:
    """The id of the submitted job; raises ValueError with what Slurm says."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(f"{shlex.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip().partition(";")[0]
