"""A stand-in for the nvidia-smi command, run by a script on PATH; its answers come from a table of fields.

``uuid`` is the only GPU; ``answers`` maps a field to its text, and a field that is not in it is not known to this
version; ``pids`` are the processes that compute. The table is read again for every line.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

SCRIPT = """#!{python}
import runpy
runpy.run_path({here!r}, init_globals={{"TABLE": {table!r}}}, run_name="__main__")
"""


def install(folder, table):
    """Write the command into a folder and its table beside it; return a function that changes the table."""
    path, command = folder / "table.json", folder / "nvidia-smi"
    path.write_text(json.dumps(table))
    command.write_text(SCRIPT.format(python=sys.executable, here=__file__, table=str(path)))
    command.chmod(0o755)
    return lambda **changes: change(path, changes)


def change(path, changes):
    """Replace parts of the table, in one step."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    draft.replace(path)


def options(words):
    """Return the options as a mapping; ``-lms`` has its value in the next word."""
    found = dict(word.partition("=")[::2] for word in words if word.startswith("--"))
    if "-lms" in words:
        found["-lms"] = words[words.index("-lms") + 1]
    return found


def answer(table, given):
    """Return the lines for one question, or end as the real command does."""
    if given["--id"] != table["uuid"]:
        sys.exit("No devices were found")
    if "--query-compute-apps" in given:
        return [str(pid) for pid in table.get("pids", [])]
    fields = given["--query-gpu"].split(",")
    unknown = [field for field in fields if field not in table["answers"]]
    if unknown:
        sys.stdout.write(f'Field "{unknown[0]}" is not a valid field to query.\n\n')
        sys.exit(2)
    return [", ".join(table["answers"][field] for field in fields)]


def main(table_path, words):
    """Answer once, or in a loop."""
    given = options(words)
    while True:
        table = json.loads(Path(table_path).read_text())
        sys.stdout.write("".join(f"{line}\n" for line in answer(table, given)))
        if "-lms" not in given:
            return
        time.sleep(int(given["-lms"]) / 1e3)


if __name__ == "__main__":
    main(globals()["TABLE"], sys.argv[1:])
