/**
 * Playback of one recording by wall clock: opens a replay session around a moment, seeks within it, opens another one beyond it
 * or where the speed asks for other pictures, and goes on with the next footage where a session ends.
 */
import { keyPictureSpeed } from "#schema/replay.ts"
import { useEffect, useRef, useState } from "react"
import { messageOf, tagOf } from "./api.ts"
import { type Footage, nextFootage } from "./footage.ts"
import type { HlsVideoHandle, PlayState } from "./parts/hls-video.tsx"
import type { View } from "./parts/timeline.tsx"
import { hour, minute, second } from "./time.ts"

export const speeds = [0.25, 0.5, 1, 2, 4, 8, 16] as const

/** What a session holds around the moment it is asked for: a short playlist is read fast, a long one played long. */
const before = 2 * minute
const afterOf = (speed: number): number => speed >= keyPictureSpeed ? 4 * hour : 20 * minute

/** So far behind the present there is stored footage. */
const newest = 4 * second

/** So near the present, a picture that is waited for is one that is not recorded yet. */
const nearPresent = 8 * second

export interface Playing {
  readonly uri: string
  readonly at: number
  /** Null: grows with the recording. */
  readonly end: number | null
}

/** The moment itself where it is recorded, otherwise the next footage that is known of. */
const placed = (ms: number, spans: ReadonlyArray<View>): number => {
  const next = spans.find((span) => span.end > ms)
  return next === undefined ? ms : Math.max(ms, next.start)
}

/** `footage`: null while it is not known yet where it is. `onBegun` is called with the first picture, and with every later one that follows a wait. */
export const usePlayback = (
  footage: Footage | null,
  at: number | null,
  spans: ReadonlyArray<View>,
  onBegun: () => void,
) => {
  const video = useRef<HlsVideoHandle>(null)
  const asked = useRef(0)
  const [playing, setPlaying] = useState<Playing | null>(null)
  const [moment, setMoment] = useState<number | null>(at)
  const [paused, setPaused] = useState(false)
  const [rate, setRate] = useState(1)
  const [state, setState] = useState<PlayState>("loading")
  const [error, setError] = useState<string | null>(null)
  const [nothing, setNothing] = useState(false)

  const session = async (source: Footage, ms: number, speed: number): Promise<Playing> => {
    const now = Date.now()
    const wanted = ms + afterOf(speed)
    // Key pictures are listed in parts of many seconds, and only whole ones: near the present there may be none yet.
    const keys = speed >= keyPictureSpeed && ms < now - minute
    const end = wanted < now ? wanted : keys ? now : null
    const { uri } = await source.open(ms - before, end ?? undefined, keys ? speed : 1)
    return { uri, at: ms, end }
  }

  /** Where there is no footage around the moment: the newest there is; null where there is none at all. */
  const newestSession = async (source: Footage, speed: number): Promise<Playing | null> => {
    const last = await source.newest()
    return last === null ? null : session(source, last - 10 * second, speed)
  }

  const open = async (ms: number, speed: number) => {
    if (footage === null) return
    const turn = ++asked.current
    setState("loading")
    setError(null)
    setMoment(ms)
    try {
      const next = await session(footage, ms, speed).catch((failure: unknown) => {
        if (tagOf(failure) !== "FootageNotFound") throw failure
        return newestSession(footage, speed)
      })
      if (turn !== asked.current) return
      setNothing(next === null)
      setPlaying(next)
      if (next !== null) setMoment(next.at)
    } catch (failure) {
      if (turn !== asked.current) return
      setPlaying(null)
      setError(messageOf(failure))
    }
  }

  useEffect(() => {
    void open(at ?? Date.now() - 30 * second, rate)
  }, [footage, at])

  const seek = (ms: number) => {
    const target = Math.min(placed(ms, spans), Date.now() - newest)
    setMoment(target)
    if (playing === null || video.current?.seek(target) !== true) void open(target, rate)
    return target
  }

  const setSpeed = (speed: number) => {
    setRate(speed)
    const others = (speed >= keyPictureSpeed) !== (rate >= keyPictureSpeed)
    if (others && moment !== null) void open(moment, speed)
  }

  /** A session came to its end: on with the footage after it. */
  const onward = async () => {
    const from = playing?.end ?? null
    if (from === null || footage === null) return setState("ended")
    const now = Date.now()
    if (rate > 1 && from > now - minute) {
      setRate(1)
      return open(from, 1)
    }
    const next = from < now ? await nextFootage(footage, from, now) : undefined
    if (next === undefined) setState("ended")
    else await open(Math.max(from, next.start), rate)
  }

  const onState = (next: PlayState) => {
    if (next === "ended") onward().catch((failure: unknown) => setError(messageOf(failure)))
    else setState(next)
    // Whoever runs into the present at a higher speed goes on at its pace.
    if (next === "stalled" && rate > 1 && moment !== null && moment > Date.now() - nearPresent) setSpeed(1)
    if (next === "playing") onBegun()
  }

  return {
    video,
    playing,
    moment,
    paused,
    rate,
    state,
    error,
    nothing,
    seek,
    setSpeed,
    setPaused,
    setMoment,
    onState,
    onError: (words: string) => setError(words),
    retry: () => void open(moment ?? Date.now() - 30 * second, rate),
  }
}

export type Playback = ReturnType<typeof usePlayback>
