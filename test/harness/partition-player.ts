/**
 * A player of a replay that reads the numbers in the pictures it is given, and says what is wrong with them.
 *
 * Invariant: everything is asked by HTTP, of the playlist that the player was given once.
 */
import { framesOf as marksOf } from "../camera-simulator/frames.ts"
import type { Recorded } from "./cameras.ts"
import { type NodeProcess, Refused } from "./node-process.ts"

interface Watched {
  readonly frames: ReadonlyArray<number>
  readonly partial: boolean
  /** Of how many sessions the playlist was sewn. */
  readonly parts: number
  /** Whose segments the playlist named, and what the nodes had said; for a person. */
  readonly told: string
}

/** A player's session, and the playlist that it was given. */
export interface Opened {
  readonly base: URL
  readonly text: string
  readonly partial: boolean
  readonly sources: string
}

interface PartTold {
  readonly part: string
  /** Wall clock of its first segment. */
  readonly from: string
  segments: number
}

/** Segments of a playlist by the part they are of: `0-` for the first; a node's own are told by their path. */
const partsOf = (text: string): ReadonlyArray<PartTold> => {
  const parts: Array<PartTold> = []
  let at = ""
  for (const line of text.split("\n")) {
    if (line.startsWith("#EXT-X-PROGRAM-DATE-TIME:")) at = line.slice(-13)
    else if (line.includes(".m4s")) {
      const [, folder = "", number = ""] = /([^/]*\/)(\d+-)?[^/]*$/.exec(line) ?? []
      const part = `${folder.slice(0, 8)}${number}`
      const last = parts.at(-1)
      if (last?.part === part) last.segments++
      else parts.push({ part, from: at, segments: 1 })
    }
  }
  return parts
}

/** For a person. */
const outlineOf = (text: string): string =>
  [
    ...partsOf(text).map(({ from, part, segments }) => `${segments} of ${part} from ${from}`),
    text.includes("#EXT-X-ENDLIST") ? "ended" : "grows",
  ].join(", ")

class NoPlaylist extends Error {
  readonly status: number
  constructor(status: number, text: string) {
    super(`playlist: ${status} ${text}`)
    this.status = status
  }
}

/** A connection that ends without an answer is told with what was asked. */
const fetched = (url: URL): Promise<Response> =>
  fetch(url).catch((error: unknown) => Promise.reject(new Error(`no answer to ${url.pathname}`, { cause: error })))

/** Opens a replay of `[fromMs, toMs)` through whichever node; over all holders, or of the node's own. */
export const open = async (
  node: NodeProcess,
  { recordingToken }: Recorded,
  fromMs: number,
  toMs: number,
  path = "/bff/api/v1/federation-replay/uri",
): Promise<Opened> => {
  const asked = { recordingToken, start: new Date(fromMs).toISOString(), end: new Date(toMs).toISOString() }
  const { partial = false, sources = [], uri } = (await node.call("POST", path, asked)) as {
    readonly partial?: boolean
    readonly sources?: ReadonlyArray<{ readonly name: string; readonly state: string; readonly detail: string }>
    readonly uri: string
  }
  const base = new URL("playlist.m3u8", `${node.url}${uri}`)
  const playlist = await fetched(base)
  if (!playlist.ok) throw new NoPlaylist(playlist.status, await playlist.text())
  const told = sources.map(({ detail, name, state }) => `${name || "itself"} ${state} ${detail}`.trim()).join(", ")
  return { base, text: await playlist.text(), partial, sources: told }
}

/** What the player is given by the playlist it has. */
export const play = async ({ base, partial, sources, text }: Opened): Promise<Watched> => {
  const frames: Array<number> = []
  for (const line of text.split("\n").filter((one) => one.includes(".m4s"))) {
    const segment = await fetched(new URL(line, base))
    if (!segment.ok) throw new Error(`segment ${line}: ${segment.status} ${await segment.text()}`)
    frames.push(...marksOf(new Uint8Array(await segment.arrayBuffer())).map(({ frame }) => frame))
  }
  const [first, last] = [frames[0] ?? "none", frames.at(-1) ?? "none"]
  return {
    frames,
    partial,
    parts: partsOf(text).length,
    told: `pictures ${first} to ${last}; ${outlineOf(text)}; ${sources}`,
  }
}

export const watch = async (...asked: Parameters<typeof open>): Promise<Watched> => play(await open(...asked))

export const isWatched = (told: unknown): told is Watched =>
  typeof told === "object" && told !== null && "frames" in told

/** It says that what is asked for is at a node that does not answer. */
export const isAway = (error: unknown): boolean =>
  error instanceof Refused && error.status === 503 || error instanceof NoPlaylist && error.status === 503

/** What is wrong with numbers that should follow each other from `first` on. */
export const faultsOf = (frames: ReadonlyArray<number>, first: number): ReadonlyArray<string> => {
  const faults: Array<string> = []
  const from = frames.filter((frame) => frame >= first)
  for (let at = 1; at < from.length; at++) {
    const [before, now] = [from[at - 1] as number, from[at] as number]
    if (now <= before) faults.push(`${now} comes after ${before}`)
    else if (now > before + 1) faults.push(`${before + 1} to ${now - 1} are missing`)
  }
  if (from.length === 0) faults.push("nothing is shown")
  else if (from[0] !== first) faults.push(`it begins with ${from[0]} instead of ${first}`)
  return faults
}
