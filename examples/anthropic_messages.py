"""An agent on Anthropic's Messages API that can use every skill on this machine.

Set ANTHROPIC_API_KEY, then: python examples/anthropic_messages.py "How do I write a skill?"
"""

import os
import sys

import anyio
from anthropic import AsyncAnthropic

from metier import Runtime


async def main(question: str) -> None:
    model = os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-5-5")
    async with Runtime.open() as metier, AsyncAnthropic() as client:
        system = metier.prompt(question, system="You are a helpful assistant.")
        tools, messages = metier.tools("anthropic"), [{"role": "user", "content": question}]
        for _ in range(20):
            reply = await client.messages.create(
                model=model, max_tokens=4096, system=system, messages=messages, tools=tools
            )
            results = await metier.handle(reply)
            if not results:
                break
            messages += [{"role": "assistant", "content": reply.content}, *results]
        text = "".join(block.text for block in reply.content if block.type == "text")
        print(text or "No answer after twenty turns.")


anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "How do I write a skill?")
