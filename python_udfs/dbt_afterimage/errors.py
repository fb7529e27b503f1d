"""Afterimage's error class."""


class AfterimageError(Exception):
    """An error that the user can repair. The text is one line and includes the remedy."""
