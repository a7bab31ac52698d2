"""The stages of a run, one verb a module: profile, ablate, correlate, and the run that joins them."""
