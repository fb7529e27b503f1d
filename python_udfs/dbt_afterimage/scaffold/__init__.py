"""From a landed change table to the texts of the models that turn it into history."""
