"""May it run: validate, look, authorize, approve. The stages are pure; only `look` gathers facts."""
