"""The words of Metier. Frozen values and pure functions: nothing here reads, writes, waits or starts anything."""
