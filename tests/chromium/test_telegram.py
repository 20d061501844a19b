"""The same request in the browser and in Telegram: what is decided in one of them is gone from the other, at once."""

from collections.abc import Callable

import pytest

from console_kit import READ_MS, Console, ask, listening, press, told, until
from metier.catalog.here import owner
from metier.testing.bot_api import BotApiServer
from metier.testing.bot_api_methods import Sent

Opens = Callable[..., Console]
ADA = 987_654_321
SKILL = "xpell-agent-skill-telegram"


def shown(telegram: BotApiServer, approval: str) -> Sent:
    """The message with buttons about a request."""

    def found() -> list[Sent]:
        return [each for each in telegram.state.sent if approval in each.text]

    assert telegram.wait(lambda _: found(), 20), telegram.texts(ADA)
    return found()[-1]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_request_is_decided_in_the_browser_or_in_telegram_and_both_know(console: Opens) -> None:
    with BotApiServer() as telegram:

        def prepare(home: object) -> None:
            (at_home := home / ".metier" / "metier.toml").write_text(  # type: ignore[operator]
                f'[telegram]\napi = "{telegram.url}"\napprovers = {{ "{ADA}" = "{owner()}" }}\n',
                encoding="utf-8",
            )
            at_home.chmod(0o600)

        at = console(prepare=prepare)
        page = at.tab()
        # He sets it up in the console, as the empty page of channels says.
        page.goto(at.url + "/channels")
        page.click(f"a[href='/skills/{SKILL}']")
        press(page, "text=Start it, now and after every start")
        told(page, "It lives")
        page.goto(at.url + f"/skills/{SKILL}/settings")
        page.get_by_label("Bot token").fill(telegram.token)
        page.get_by_label("People the bot listens to").fill(str(ADA))
        page.get_by_label("Start with the host").select_option(label="yes")
        press(page, "text=Keep what I changed")
        page.wait_for_selector("text=Kept.")
        chats = at.another(page.context)
        chats.goto(at.url + "/channels")
        listening(chats)
        telegram.state.message(ADA, "is there tea?")
        chats.click(f"text=telegram, chat {ADA}")  # there by itself
        chats.wait_for_selector("text=is there tea?")
        listening(chats)
        telegram.state.message(ADA, "green, please")
        chats.wait_for_selector("text=green, please")
        page.goto(at.url + "/approvals")
        listening(page)

        first = ask(at, "tea")
        page.wait_for_selector(f"[data-request={first}]")
        sent = shown(telegram, first)
        assert sent.buttons
        telegram.state.press(ADA, sent, dict(sent.buttons)[next(n for n, _ in sent.buttons if "eny" in n)])
        page.wait_for_selector(f"[data-request={first}][data-state=pending]", state="detached")
        assert at.approval(first).state == "denied"

        second = ask(at, "more tea")
        page.wait_for_selector(f"[data-request={second}]")
        shown(telegram, second)
        page.wait_for_function(f"() => document.activeElement.dataset.request === '{second}'")
        page.wait_for_timeout(READ_MS)
        page.keyboard.press("d")
        told(page, "Denied")
        until(lambda: not shown(telegram, second).buttons, 20)  # nobody can press what is decided
        assert at.wrong == []
