"""Metier runs agent skills. What is not named in `__all__` is private."""

__version__ = "0.1.0"
