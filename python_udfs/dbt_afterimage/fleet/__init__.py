"""Many tables at once: which of them have news, and what a run must build."""
