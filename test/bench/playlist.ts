/**
 * CPU time of the first playlists of a day.
 *
 *   npm run bench:playlist -- [--runs 5] [--fragment-ms 1000] [--group-ms 1000] [--gzip]
 *
 * How it measures
 * 1. Two days of one camera are written through the real storage: files of 10 minutes, fragments of about 500 KB whose bytes are
 *    holes in the file, since playlists are made of indexes.
 * 2. Each run is a new process with storage, HLS, replay and HTTP (`playlist-node.ts`), asked over a socket. Its CPU time, all
 *    threads, is read before each request and a little after its answer, so that what the request left to the compiler and the
 *    garbage collector counts.
 * 3. `first`: the second day is the first thing the process is ever asked for. `warm`: it has answered 24 replays of an hour and
 *    one of a day before, all of the first day; nothing of the second day is in its memory. The disk's cache is warm in both.
 */
import type { Fragment } from "#media/storage.ts"
import { Storage } from "#media/storage.ts"
import { defaultStorageOptions, layer as storageLayer } from "#media/storage/live.ts"
import { identityOf, parameters } from "#test/media/made-up-files.ts"
import { Effect, Logger } from "effect"
import { type ChildProcess, fork } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { parseArgs } from "node:util"

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "5" },
    "fragment-ms": { type: "string", default: "1000" },
    "group-ms": { type: "string", default: "1000" },
    gzip: { type: "boolean", default: false },
  },
})
const fragmentMs = Number(values["fragment-ms"])
const groupMs = Number(values["group-ms"])
const t0 = Date.parse("2026-03-01T00:00:00.000Z")
const hour = 3_600_000
const day = 24 * hour
const fileMs = 600_000
const say = (line: string): void => void process.stdout.write(`${line}\n`)
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** Sizes as they come: 400 to 600 KB, the same in every run. */
let state = 1
const size = () => {
  state = (state * 48_271) % 2_147_483_647
  return 400_000 + state % 200_000
}

/** The last one of a file is written whole, so that the file has its length. */
const fragment = (startMs: number, whole: boolean): Fragment => {
  const bytes = size()
  return {
    data: Buffer.alloc(whole ? bytes : 64),
    release: () => {},
    bytes,
    startMs,
    endMs: startMs + fragmentMs,
    decodeTicks: (startMs - t0) * 90,
    durationTicks: fragmentMs * 90,
    key: (startMs - t0) % groupMs === 0,
    discontinuity: startMs === t0,
    frames: fragmentMs / 40,
  }
}

const write = (root: string) =>
  Effect.gen(function*() {
    const { create } = yield* Storage
    for (let at = t0, sequence = 0; at < t0 + 2 * day; at += fileMs, sequence++) {
      const writer = yield* create(identityOf(1), parameters, { sequence, startMs: at })
      for (let ms = at; ms < at + fileMs; ms += fragmentMs) {
        if (!writer.append(fragment(ms, ms + fragmentMs >= at + fileMs))) throw new Error("the queue is full")
      }
      yield* writer.seal
    }
  }).pipe(
    Effect.provide(storageLayer({
      ...defaultStorageOptions,
      queueBytes: 1e9,
      folders: [{ name: "main", path: path.join(root, "main"), floorBytes: 0 }],
      registryPath: path.join(root, "folders.json"),
    })),
    Effect.provide(Logger.layer([])),
  )

const answer = <A>(child: ChildProcess): Promise<A> =>
  new Promise((resolve, reject) => {
    child.once("message", (message) => resolve(message as A))
    child.once("exit", (code) => reject(new Error(`the node ended with ${code}`)))
  })

/** One process; `warmUp` asks for the first day first. Milliseconds of CPU by request. */
const run = async (root: string, warmUp: boolean, order: ReadonlyArray<string>) => {
  const child = fork(path.join(import.meta.dirname, "playlist-node.ts"), [root])
  try {
    const { port, recordingToken } = await answer<{ port: number; recordingToken: string }>(child)
    const base = `http://127.0.0.1:${port}`
    const get = async (url: string) => {
      const headers = { "accept-encoding": values.gzip ? "gzip" : "identity" }
      const response = await fetch(base + url, { headers })
      const text = await response.text()
      if (response.status !== 200) throw new Error(`${response.status}: ${text}`)
      return text
    }
    const open = async (start: number, end: number) => {
      const response = await fetch(`${base}/replay/api/v1/replay/uri`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer viewer" },
        body: JSON.stringify({
          recordingToken,
          start: new Date(start).toISOString(),
          end: new Date(end).toISOString(),
        }),
      })
      const { uri } = (await response.json()) as { uri: string }
      return (name: string) => uri.replace("master.m3u8", name)
    }
    if (warmUp) {
      for (let i = 0; i <= 24; i++) {
        const at = i === 24 ? await open(t0, t0 + day) : await open(t0 + i * hour + 500, t0 + (i + 1) * hour - 500)
        for (const name of order) await get(at(name))
      }
    }
    const session = await open(t0 + day, t0 + 2 * day)
    await sleep(500)
    const cpu = async () => {
      child.send("cpu")
      return (await answer<{ cpuMs: number }>(child)).cpuMs
    }
    const spent: Array<readonly [name: string, cpuMs: number, bytes: number]> = []
    for (const name of [...order, ...order]) {
      const before = await cpu()
      const text = await get(session(name))
      await sleep(100)
      spent.push([name, (await cpu()) - before, text.length])
    }
    return spent
  } finally {
    child.kill()
  }
}

const middle = (numbers: ReadonlyArray<number>): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0

const measure = async (root: string, name: string, warmUp: boolean, order: ReadonlyArray<string>) => {
  const runs: Array<Awaited<ReturnType<typeof run>>> = []
  for (let i = 0; i < Number(values.runs); i++) runs.push(await run(root, warmUp, order))
  const line = (what: string, numbers: ReadonlyArray<number>) => {
    const all = numbers.map((cpuMs) => cpuMs.toFixed(1)).join(" ")
    say(`${name.padEnd(6)} ${what.padEnd(34)} ${middle(numbers).toFixed(1).padStart(6)} ms CPU   (${all})`)
  }
  runs[0]?.forEach(([what], i) => {
    line(`${what}${i < order.length ? "" : ", again"}`, runs.map((spent) => spent[i]?.[1] ?? 0))
  })
  if (order.length > 1) {
    line(order.join(" + "), runs.map((spent) => spent.slice(0, order.length).reduce((sum, [, ms]) => sum + ms, 0)))
  }
  return runs[0]?.at(-1)?.[2] ?? 0
}

const root = mkdtempSync(path.join(tmpdir(), "nightjar-bench-"))
try {
  await Effect.runPromise(write(root))
  say(
    `${day / fragmentMs} fragments in ${
      day / fileMs
    } files, groups of ${groupMs} ms; median of ${values.runs} processes`,
  )
  for (const warmUp of [false, true]) {
    const name = warmUp ? "warm" : "first"
    const bytes = await measure(root, name, warmUp, ["playlist.m3u8"])
    await measure(root, name, warmUp, ["master.m3u8", "playlist.m3u8"])
    if (warmUp) say(`${bytes} characters of media playlist`)
  }
} finally {
  rmSync(root, { recursive: true, force: true })
}
