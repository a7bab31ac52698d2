"""How energy grows with length, batch and model: laws, how far they hold, and what they predict. Pure functions.

What is measured: observations and their `cells`, read by `from_runs`, chosen by `cell_selection`, brought to one
board by `boards`.

What is fitted: `law` (the one shape of all laws, with ``predict``), `fit` (the one fit) over `least_squares`, and
for rooflines `time_law` with the search for its `regimes`.

How good it is: `held_out` (cells left out of any law), `law_choice` (which law a subject follows).

What follows: `predict` for a shape or model (`shape_work` counts its work without weights); `law_document`, the
laws.json of `group_laws` (with `linearity`), `contrasts`, `efficiency` and `sizes`.
"""
