/**
 * Clients of the live channel, by WebSocket and by SSE, that are cut off in the middle of things and come back with the last
 * cursor they have got.
 *
 * Invariants
 * 1. A client notes an event when it has the whole message, and nothing else; what was on the way when it was cut off counts as
 *    not received.
 */
import * as NodeWS from "@effect/platform-node/NodeWS"
import { sleep } from "./node-process.ts"

export interface Message {
  readonly kind: string
  readonly cursor?: string
  readonly event?: { readonly id: string }
}

/** One connection; `ended` resolves when it is over, whoever ended it. */
interface Connection {
  readonly cut: () => void
  readonly ended: Promise<string>
}

export interface Door {
  readonly url: string
  readonly token: () => Promise<string>
}

type Open = (door: Door, token: string, query: string, take: (message: Message) => void) => Connection

const path = "/notification/api/v1/stream"

export const webSocket: Open = ({ url }, token, query, take) => {
  const ws = new NodeWS.WebSocket(`${url.replace("http", "ws")}${path}${query}`, ["nightjar", token])
  const ended = new Promise<string>((resolve) => {
    ws.on("close", (code, reason) => resolve(`${code} ${String(reason)}`))
    ws.on("error", () => ws.terminate())
  })
  ws.on("message", (data: Buffer) => take(JSON.parse(String(data)) as Message))
  return { cut: () => ws.terminate(), ended }
}

export const sse: Open = ({ url }, token, query, take) => {
  const abort = new AbortController()
  const run = async () => {
    const headers = { authorization: `Bearer ${token}`, accept: "text/event-stream" }
    const response = await fetch(`${url}${path}${query}`, { headers, signal: abort.signal })
    if (response.status !== 200 || response.body === null) return `status ${response.status}`
    let rest = ""
    const decoder = new TextDecoder()
    for await (const chunk of response.body) {
      // What comes behind the cut was not received.
      if (abort.signal.aborted) return "cut"
      const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n\n")
      rest = parts.pop() ?? ""
      for (const part of parts) {
        const data = part.split("\n").find((line) => line.startsWith("data: "))
        if (data !== undefined) take(JSON.parse(data.slice(6)) as Message)
      }
    }
    return "ended"
  }
  return { cut: () => abort.abort(), ended: run().catch((error: unknown) => String(error)) }
}

export interface FollowingClient {
  readonly events: ReadonlyArray<string>
  readonly kinds: ReadonlyMap<string, number>
  readonly reconnects: () => number
  readonly stop: () => Promise<void>
}

/** Follows from the oldest event on; `lives` answers how long (ms) a connection is let live from its first message on, `null`: for ever. */
export const follow = (door: Door, open: Open, lives: () => number | null): FollowingClient => {
  const events: Array<string> = []
  const kinds = new Map<string, number>()
  let cursor = "earliest"
  let reconnects = -1
  let stopped = false
  let current: Connection | null = null

  const take = ({ cursor: at, event, kind }: Message) => {
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
    if (at !== undefined) cursor = at
    if (event !== undefined) events.push(event.id)
  }
  const once = async () => {
    const token = await door.token()
    let welcomed = false
    let over = false
    let cutting: ReturnType<typeof setTimeout> | undefined
    const welcome = () => {
      welcomed = true
      reconnects += 1
      const life = lives()
      if (life === null) return
      cutting = setTimeout(() => {
        over = true
        connection.cut()
      }, life)
    }
    const connection = open(door, token, `?lastEventId=${cursor}`, (message) => {
      if (over) return
      if (!welcomed) welcome()
      take(message)
    })
    current = connection
    await connection.ended
    over = true
    clearTimeout(cutting)
  }
  const run = (async () => {
    while (!stopped) {
      try {
        await once()
      } catch {
        // The node is away; it comes back.
      }
      await sleep(50)
    }
  })()
  return {
    events,
    kinds,
    reconnects: () => reconnects,
    stop: async () => {
      stopped = true
      current?.cut()
      await run
    },
  }
}
