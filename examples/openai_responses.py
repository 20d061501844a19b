"""An agent on OpenAI's Responses API that can use every skill on this machine.

Set OPENAI_API_KEY, then: python examples/openai_responses.py "How do I write a skill?"
"""

import os
import sys

import anyio
from openai import AsyncOpenAI

from metier import Runtime


async def main(question: str) -> None:
    model = os.environ.get("OPENAI_MODEL", "gpt-5.5")
    async with Runtime.open() as metier, AsyncOpenAI() as client:
        system = metier.prompt(question, system="You are a helpful assistant.")
        said = [{"role": "user", "content": question}]
        for _ in range(20):
            reply = await client.responses.create(
                model=model, instructions=system, input=said, tools=metier.tools("openai_responses")
            )
            results = await metier.handle(reply)
            if not results:
                break
            said += [*reply.output, *results]
        print(reply.output_text or "No answer after twenty turns.")


anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "How do I write a skill?")
