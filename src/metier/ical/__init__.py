"""`metier-ical-query`: a calendar that a skill may ask and add to, over .ics files or over CalDAV.

A command of its own. It runs inside a sandbox like any other program a skill declared, so it knows nothing of the
runtime: its environment says where the calendar is, its arguments what is wanted.
"""
