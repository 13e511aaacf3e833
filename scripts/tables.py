"""Tables of runs: list them, run them here, say what they cost, submit them to a cluster, report on them.

    python -m scripts.tables list
    python -m scripts.tables run table=p/gpt2 scale=tiny seeds=3
    python -m scripts.tables plan table=p-table2 scale=paper seeds=3 out=jobs.txt
    python -m scripts.tables submit table=p-table2 scale=paper cluster=example dry=true
    python -m scripts.tables report jobs=jobs.txt results=results/local

A table is conf/table/<paper>/<item>.yaml; `table` is its name, one of its rows, a pattern of them, or a short form
such as p-table2 for all tables that begin with p/table2. What is finished is left out, so the same command again does
what is missing. VERB --help lists the options of a verb.
"""

from dataclasses import dataclass

from rich.console import Console

from decent_core.config.command_line import choose_verb, options, run_main
from decent_core.config.table_file import load_table, table_names

VERBS = ("list", "run", "plan", "submit", "report")


@dataclass(frozen=True)
class NoOptions:
    """`list` takes none."""


def main(arguments: list[str]) -> int:
    """Do what the verb says; returns the exit status."""
    verb, rest = choose_verb(arguments, VERBS)
    if verb == "list":
        return _list(rest)
    if verb == "run":
        from decent_core.report.run_tables import RunOptions, run_tables  # as matplotlib takes a second to import

        return run_tables(options(RunOptions, rest, __doc__ or ""))
    if verb == "report":
        from decent_core.report.run_tables import ReportOptions, report_on_jobs

        return report_on_jobs(options(ReportOptions, rest, __doc__ or ""))
    if verb == "plan":
        from decent_core.tables.show_plan import PlanOptions, show_plan

        return show_plan(options(PlanOptions, rest, __doc__ or ""))
    from decent_core.tables.submission import SubmitOptions, submit

    return submit(options(SubmitOptions, rest, __doc__ or ""))


def _list(arguments: list[str]) -> int:
    """Show all tables, with the number of their rows."""
    options(NoOptions, arguments, __doc__ or "")
    console = Console(highlight=False)
    for table in map(load_table, table_names()):
        what = table.shown_by or f"{len(table.rows)} rows"
        console.print(f"{table.name:20} {table.title} ({what})", soft_wrap=True, markup=False)
    return 0


if __name__ == "__main__":
    run_main(main)
