"""The address of a webhook: what can be reached by the way out, and nothing that would have to be kept secret. Pure."""

from metier.sandbox.address import why_closed, why_closed_name
from metier.sandbox.url import BadUrl, Url, read_url


def read_webhook(text: str) -> Url | str:
    """The address, or why it can never be told. That says nothing of what stands in it: a password may."""
    url = read_url(text)
    if isinstance(url, BadUrl):
        return url.why
    if url.scheme != "https":
        return "it does not begin with https://"
    if why := why_closed(url.address) if url.address else why_closed_name(url.host):
        return f"it is for {why}, which no webhook may reach"
    return url
