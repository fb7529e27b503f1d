"""What a person looks at: the pages of `afterimage timeline` and `afterimage health`."""
