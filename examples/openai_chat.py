"""An agent on OpenAI's Chat Completions that can use every skill on this machine.

Set OPENAI_API_KEY, then: python examples/openai_chat.py "How do I write a skill?"
"""

import os
import sys

from openai import OpenAI

from metier import SyncRuntime

question = sys.argv[1] if len(sys.argv) > 1 else "How do I write a skill?"
model = os.environ.get("OPENAI_MODEL", "gpt-5.5")

with SyncRuntime.open() as metier, OpenAI() as client:
    system = metier.prompt(question, system="You are a helpful assistant.")
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    for _ in range(20):
        reply = client.chat.completions.create(model=model, messages=messages, tools=metier.tools("openai"))
        results = metier.handle(reply)
        if not results:
            break
        messages += [reply.choices[0].message, *results]
    print(reply.choices[0].message.content or "No answer after twenty turns.")
