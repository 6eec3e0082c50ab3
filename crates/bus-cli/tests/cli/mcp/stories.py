"""Agents that talk through `vakbus mcp`, by the client of the package `mcp`."""

import asyncio
import json
import os
import signal
import subprocess
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

VAKBUS = os.environ["VAKBUS"]
LONG = 120


def agent(mode, *args, handler=None, told=None):
    """A client with a server of its own; `told` is where the server writes its process id."""
    command, words = VAKBUS, ["mcp", *args]
    if told:
        command, words = "sh", ["-c", f'echo $$ >{told}; exec "$0" "$@"', VAKBUS, *words]
    server = StdioServerParameters(command=command, args=words, env=dict(os.environ))
    more = {"message_handler": handler} if handler else {}
    return Client(stdio_client(server), mode=mode, **more)


def vakbus(*args):
    done = subprocess.run([VAKBUS, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    return done.stdout


async def call(client, tool, **args):
    result = await client.call_tool(tool, args)
    assert not result.is_error, result
    # Clients that know no structured content read the text: it says the same.
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def refused(client, tool, **args):
    result = await client.call_tool(tool, args)
    assert result.is_error, result
    return result.structured_content["error"]


async def talk(mode):
    async with agent(mode, "--as", "ada") as ada, agent(mode, "--as", "bob") as bob:
        tools = [[t.name for t in (await who.list_tools()).tools] for who in (ada, bob)]
        claiming = asyncio.create_task(call(bob, "task_claim", wait_seconds=LONG))
        sending = asyncio.create_task(
            call(ada, "task_send", role="worker", text="add 2 and 3", wait_seconds=LONG)
        )
        claimed = await claiming
        await call(bob, "task_complete", lease=claimed["lease"], text="5")
        answer = await sending
        await call(ada, "message_send", to="bob", text="thanks")
        message = (await call(bob, "inbox_wait", wait_seconds=LONG))["messages"][0]
        await call(bob, "inbox_ack", message=message["id"])
        error = await refused(bob, "task_complete", lease=claimed["lease"])
        return {
            "version": ada.protocol_version,
            "tools": tools,
            "task": claimed["task"],
            "answer": answer,
            "message": message,
            "error": error,
        }


async def approve(mode):
    async with agent(mode, "--as", "ada", "--worker", "bob") as ada:
        asking = asyncio.create_task(
            call(ada, "approval_request", action="deploy", target="web-1", wait_seconds=LONG)
        )
        while not (asked := vakbus("approvals", "ls", "--json").splitlines()):
            await asyncio.sleep(0.1)
        approval = json.loads(asked[0])["approval"]
        vakbus("approvals", "resolve", approval, "yes", "--note", "go on", "--yes")
        used = await asking
        again = await refused(ada, "approval_wait", approval=approval, action="deploy", target="web-1")
        return {"approval": approval, "used": used, "again": again}


async def wake(mode):
    """A message and a task each wake a client that does nothing but wait."""
    inbox, queue = "vakbus://inbox", "vakbus://queue/worker"
    updates = asyncio.Queue()

    async def heard(message):
        if getattr(message, "method", "") == "notifications/resources/updated":
            updates.put_nowait(str(message.params.uri))

    async def next_of(uri):
        while await asyncio.wait_for(updates.get(), LONG) != uri:
            pass

    async def story(ada, bob):
        await call(ada, "message_send", to="bob", text="wake up")
        await next_of(inbox)
        read = await bob.read_resource(inbox)
        await call(ada, "task_send", role="worker", text="work")
        await next_of(queue)
        claimed = await call(bob, "task_claim")
        return {"inbox": json.loads(read.contents[0].text), "task": claimed["task"]}

    async with agent(mode, "--as", "ada") as ada, agent(mode, "--as", "bob", handler=heard) as bob:
        if mode == "legacy":
            for uri in (inbox, queue):
                await bob.subscribe_resource(uri)
            return await story(ada, bob)
        async with bob.listen(resource_subscriptions=[inbox, queue]) as subscription:

            async def follow():
                async for event in subscription:
                    updates.put_nowait(str(event.uri))

            following = asyncio.create_task(follow())
            told = await story(ada, bob)
            following.cancel()
            return told


async def guarded(mode):
    """Where a worker may take from its queue and not look into it, only messages wake it."""
    inbox, woken = "vakbus://inbox", asyncio.Event()

    async def heard(message):
        if getattr(message, "method", "") == "notifications/resources/updated":
            woken.set()

    async with agent(mode, "--as", "ada") as ada, agent(mode, "--as", "bob", handler=heard) as bob:
        try:
            await bob.subscribe_resource("vakbus://queue/worker")
            refused = None
        except MCPError as error:
            refused = error.error.data["error"]
        await bob.subscribe_resource(inbox)
        await call(ada, "message_send", to="bob", text="wake up")
        await asyncio.wait_for(woken.wait(), LONG)
        read = await bob.read_resource(inbox)
        return {"inbox": json.loads(read.contents[0].text), "refused": refused}


async def killed(mode):
    """A server that is killed with a task in its hands: the task comes again after its lease."""
    vakbus("task", "send", "hard")
    attempts = []
    try:
        async with agent(mode, "--as", "bob", told="bob.pid") as bob:
            attempts.append((await call(bob, "task_claim", wait_seconds=LONG))["task"]["attempt"])
            with open("bob.pid", encoding="ascii") as pid:
                os.kill(int(pid.read()), signal.SIGKILL)
    except BaseExceptionGroup:
        pass
    async with agent(mode, "--as", "bob") as bob:
        claimed = await call(bob, "task_claim", wait_seconds=LONG)
        attempts.append(claimed["task"]["attempt"])
        await call(bob, "task_complete", lease=claimed["lease"])
    return {"attempts": attempts}


async def left(mode):
    """A client that leaves with a task and a message: both are there for the next at once."""
    vakbus("task", "send", "hard")
    vakbus("inbox", "send", "bob", "read me")
    seen = []
    for _ in range(2):
        async with agent(mode, "--as", "bob") as bob:
            claimed = await call(bob, "task_claim", wait_seconds=LONG)
            messages = await call(bob, "inbox_wait", wait_seconds=LONG)
            seen.append([claimed["task"]["attempt"], len(messages["messages"])])
    return {"seen": seen}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(globals()[sys.argv[1]](sys.argv[2]))))
