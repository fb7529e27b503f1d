"""What opens Spark and stands between it and dbt."""
