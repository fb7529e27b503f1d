"""`python -m dbt_afterimage` is the `afterimage` command."""

import sys

from dbt_afterimage.cli import main

if __name__ == "__main__":
    sys.exit(main())
