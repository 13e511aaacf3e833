"""Measure speed and memory on this machine. Without a verb: `steps`.

    python -m scripts.bench steps                    # a training step beside torch DDP and decent-dp; memory
    python -m scripts.bench network workers=8        # the same over slow links, beside what the runtime model predicts
    python -m scripts.bench images tree=FOLDER       # decoding of image files
    python -m scripts.bench simulation               # the runtime model's simulation itself
    torchrun --nproc-per-node=4 -m scripts.bench profile task=gpt2 scale=tiny    # this machine, for scripts.advise

`python -m scripts.bench VERB --help` shows the options of one. Those of `steps`:
"""

from collections.abc import Sequence
from dataclasses import fields
from types import ModuleType

from decent_core.config.command_line import choose_verb, options, run_main
from decent_core.config.load import load
from decent_core.lab import link_bench, profile, simulation, step_bench
from tasks.imagenet import speed

#: verb -> a module with `Options` and `run`
BENCHES: dict[str, ModuleType] = {
    "steps": step_bench,
    "network": link_bench,
    "images": speed,
    "simulation": simulation,
    "profile": profile,
}


def main(arguments: Sequence[str]) -> int:
    """Measure, write and print; returns the exit status."""
    verb, rest = choose_verb(arguments, tuple(BENCHES))
    bench = BENCHES[verb]
    usage = __doc__ if arguments and arguments == rest else bench.__doc__
    if verb != "profile":
        return bench.run(options(bench.Options, rest, usage or ""))
    known = {"--help", "-h", *(field.name for field in fields(profile.Options))}
    own = [text for text in rest if text.partition("=")[0] in known]
    given = options(profile.Options, own, usage or "")
    return profile.run(given, load(["method=awc", "engine=distributed", *(text for text in rest if text not in own)]))


if __name__ == "__main__":
    run_main(main)
