"""What a person types: a module for each command of `afterimage`."""
