"""What is claimed of a whole run on a bundled model that its command began."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from energyscope.runs import schema

ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
QUICK = ["--passes", "2", "--target-interval", "0.9", "--window", "0.03", "--component-budget", "0.2",
         "--max-examples", "16", "--sequence-length", "32", "--trials", "1",
         "--benchmark-precision", "fp32,bf16"]  # fmt: skip


def started(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "energyscope", *arguments],
        cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip


class WholeRun:
    """Claims on a run of all stages; a class with a model's name makes the run once and holds it against them."""

    model: str
    options: tuple[str, ...] = ()

    def test_every_file_of_the_design_is_there(self, finished):
        """All stages ran: tables, correlation, journal and report exist, and no trace of a modelled meter."""
        run, _ = finished
        names = {path.name for path in run.path.iterdir()}
        expected = {
            schema.RUN_FILE, schema.FINISHED_JOURNAL_FILE, schema.ENERGY_FILE, schema.IMPACT_FILE,
            schema.EXAMPLES_FILE, schema.MERGED_FILE, schema.CORRELATION_FILE, schema.REPORT_FILE,
            schema.BENCHMARK_FILE, schema.BENCHMARK_JSON,
        }  # fmt: skip
        if run.document["settings"]["phase"] == "both":  # a chat model's generation
            expected |= {schema.GENERATION_JSON, schema.ALTERNATIVES_JSON}
        assert names == expected

    def test_the_tables_begin_with_the_columns_of_the_design(self, finished):
        """Columns are exactly the schema's, in its order."""
        run, _ = finished
        assert tuple(run.energy.columns) == schema.ENERGY_COLUMNS
        assert tuple(run.impact.columns) == schema.IMPACT_COLUMNS
        assert {"zero:kl", "mean:kl", "mean:top1_agreement"} <= set(run.merged.columns)

    def test_learned_structure_shows_in_the_impact(self, finished):
        """On trained weights, removing some component costs far more than removing another."""
        run, _ = finished
        kl = run.impact[(run.impact["metric"] == "kl") & run.impact["valid"]]["value"]
        assert kl.max() > 10 * kl.min() >= 0

    def test_modelled_is_said_everywhere(self, finished):
        """The terminal, the documents and the page all say that energy is modelled."""
        run, done = finished
        assert run.modelled
        assert "MODELLED" in done.stdout
        assert run.correlation["compared"]["modelled"] is True
        assert "MODELLED" in (run.path / schema.REPORT_FILE).read_text(encoding="utf-8")

    def test_the_report_is_self_contained_and_small(self, finished):
        """No script, style, font or image comes from elsewhere; under 3 MB."""
        page = (finished[0].path / schema.REPORT_FILE).read_text(encoding="utf-8")
        assert len(page.encode()) < 3e6
        assert not [word for word in ('src="http', 'href="http', "@import", "url(http") if word in page]

    def test_plain_output_has_no_escape_codes(self, finished):
        """Without a terminal there are plain lines, which name every stage."""
        _, done = finished
        assert "\x1b" not in done.stdout
        assert [
            word for word in ("load:", "profile:", "ablate:", "correlate:", "report:") if word not in done.stdout
        ] == []

    def test_a_report_renders_again_without_measuring(self, finished, command):
        """`report` makes the page anew from the tables alone, the journal untouched."""
        run, _ = finished
        page, journal = run.path / schema.REPORT_FILE, (run.path / schema.FINISHED_JOURNAL_FILE).read_bytes()
        page.unlink()
        done = command("report", "one", cwd=run.path.parent.parent)
        assert done.returncode == 0, done.stderr
        assert page.exists()
        assert (run.path / schema.FINISHED_JOURNAL_FILE).read_bytes() == journal

    def test_a_run_compared_with_itself_shows_no_difference(self, finished, command):
        """`compare` of a run with itself finds nothing that is less or more."""
        run, _ = finished
        done = command("compare", "one", "one", "--json", cwd=run.path.parent.parent)
        assert done.returncode == 0, done.stderr
        assert '"more"' not in done.stdout
        assert '"less"' not in done.stdout

    def test_runs_are_listed(self, finished, command):
        """`runs --json` gives the run with its state."""
        run, _ = finished
        listed = json.loads(command("runs", "--json", cwd=run.path.parent.parent).stdout)
        assert [(listed_run["name"], listed_run["state"]) for listed_run in listed] == [("one", "done")]

    def test_a_name_that_exists_is_refused_and_nothing_is_lost(self, finished, command):
        """A second run of the same name is refused with exit code 2, and the first one is as it was."""
        run, _ = finished
        before = (run.path / schema.RUN_FILE).read_bytes()
        done = command("run", "tiny-gpt2", "--name", "one", cwd=run.path.parent.parent)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "--name" in done.stderr
        assert (run.path / schema.RUN_FILE).read_bytes() == before
