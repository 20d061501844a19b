"""The HTTP door: `metier serve`. Nothing here is imported before somebody serves."""
