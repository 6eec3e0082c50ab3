#!/usr/bin/env python3
"""An agent that asks a language model: one task, its prompt on stdin.

The answer goes to stdout, so it is kept as the task's result. While the model writes, whoever
listens hears it: `vakbus emit tokens` publishes it piece by piece, what the model thinks apart from
what it says. Needs Python 3.9, `vakbus` in the path, and a server that speaks the OpenAI form of
chat completions (Ollama, llama.cpp, vLLM and others do):

    LLM_URL     where to ask      [default: http://127.0.0.1:11434/v1/chat/completions]
    LLM_MODEL   which model       [default: llama3.2]
    LLM_KEY     its key, if it asks for one
"""

import json
import os
import subprocess
import sys
import urllib.request

URL = os.environ.get("LLM_URL", "http://127.0.0.1:11434/v1/chat/completions")
MODEL = os.environ.get("LLM_MODEL", "llama3.2")


def events(prompt):
    """What the model sends, one choice at a time, as it comes."""
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": prompt}]}
    headers = {"Content-Type": "application/json"}
    if "LLM_KEY" in os.environ:
        headers["Authorization"] = f"Bearer {os.environ['LLM_KEY']}"
    request = urllib.request.Request(URL, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=300) as answer:
        for line in answer:
            line = line.decode().strip()
            if line == "data: [DONE]":
                return
            if line.startswith("data: "):
                yield from json.loads(line[6:]).get("choices", [])


class Tokens:
    """Hands text on to whoever listens. That is best effort: the work does not depend on it."""

    def __init__(self, *options):
        self.options, self.process = options, None

    def write(self, text):
        if self.process is None:
            command = ["vakbus", "emit", "tokens", *self.options, "-"]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE)
        try:
            self.process.stdin.write(text.encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has said why on stderr

    def close(self):
        if self.process is not None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
            self.process.wait()


def main():
    said, thought = Tokens(), Tokens("--thinking")
    reason = "error"  # until the model says why it stopped
    try:
        for choice in events(sys.stdin.read()):
            delta = choice.get("delta") or {}
            thinking = delta.get("reasoning_content") or delta.get("reasoning")
            if thinking:
                thought.write(thinking)
            if delta.get("content"):
                said.write(delta["content"])
                print(delta["content"], end="", flush=True)
            if choice.get("finish_reason"):
                reason = "length" if choice["finish_reason"] == "length" else "stop"
    finally:
        thought.close()
        said.close()
        subprocess.run(["vakbus", "emit", "tokens", f"--end={reason}"], check=False)
    # Without its end an answer is none: exit code 1 has the task tried again.
    return 1 if reason == "error" else 0


if __name__ == "__main__":
    sys.exit(main())
