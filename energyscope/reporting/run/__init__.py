"""The page of a run: its answer, and a section for each thing that a run can say."""
