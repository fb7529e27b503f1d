"""The functions that Spark calls, their SQL names, and their registration in a session."""
