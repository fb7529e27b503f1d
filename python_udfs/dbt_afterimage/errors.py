"""The one error of Afterimage."""


class AfterimageError(Exception):
    """Something is wrong that a person can put right. The text is one line, the remedy in it."""
