"""The console: an operator's day in a browser. Pages that only show; whatever is done is asked of the API, like anybody else does."""
