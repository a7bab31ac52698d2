"""Publication figures: the charts of a run's page in another theme, put together, in files of a physical size."""
