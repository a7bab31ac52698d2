"""What a run is asked to do: records whose fields are the options of the command line, TOML files and the API."""
