"""Which skills there are, and whether they can be used here."""
