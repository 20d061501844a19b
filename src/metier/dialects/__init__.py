"""How skills are written down. Each file here knows one notation; what comes out is `metier.model.skill.Skill`.

Nothing here opens a file: bytes go in, a skill and diagnostics come out, and no input raises.
"""
