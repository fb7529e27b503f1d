"""Opens Spark and connects dbt to it."""
