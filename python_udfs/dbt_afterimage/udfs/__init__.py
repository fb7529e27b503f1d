"""What Spark calls: the functions, their SQL names, and how a session gets to know them."""
