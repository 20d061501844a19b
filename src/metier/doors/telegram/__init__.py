"""Telegram as a door: people write to a bot, its owner's word is asked for there, and answers go back.

The door is the host's own. The skill that ships beside it (`@xpell/agent-skill-telegram`) carries settings and operations, and never
sees the token, nor a button that somebody pressed. `api` speaks with Telegram, `update` reads what it says, `inbound` takes it in,
`polling` and `webhook` are the two ways it comes, `sending` is the way back, `buttons` and `approvals` are about people's word.
"""
