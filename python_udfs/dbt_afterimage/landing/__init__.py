"""From landed files to raw tables: what `afterimage land` does, without its command line."""
