"""What `afterimage.<macro>(…)` in a model is for sqlfluff, which renders no macro of a package."""

from __future__ import annotations

from collections.abc import Callable


def __getattr__(macro: str) -> Callable[..., str]:
    # sqlfluff asks a module for its own names first.
    if macro.startswith("_"):
        raise AttributeError(macro)
    return lambda *arguments, **options: "select * from rows_of_the_macro"
