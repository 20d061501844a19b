"""Modules and their operations: what operators do, what skills that live bring along, and what happens by itself.

An operation is a tool like any other: whoever asks for it goes through the pipeline. `operation` has the words, `modules` knows
what there is, `store` keeps what has to survive; every other file is one thing that Metier does.
"""
