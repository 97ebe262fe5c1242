/**
 * Push to talk: as long as the button is held, by finger, mouse or key, the camera of the stream hears this microphone.
 *
 * Invariants
 * 1. Letting go always ends it, also while it is still being connected, also when the page goes to the background.
 * 2. React draws when the state changes, never for a level.
 */
import type { ChannelId, StreamId } from "#schema/common.ts"
import { type KeyboardEvent, type PointerEvent, useCallback, useEffect, useRef, useState } from "react"
import { messageOf } from "../api.ts"
import { type Talk, talkTo } from "../microphone.ts"
import { useSession } from "../session.tsx"
import { Icon } from "./icons.tsx"

type State = "idle" | "connecting" | "talking"

/** Held down once: what came of it. */
interface Press {
  talk: Talk | null
  /** Returns when it was let go. */
  readonly released: Promise<void>
  readonly release: () => void
}

const makePress = (): Press => {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { talk: null, released: promise, release: resolve }
}

const labels: Readonly<Record<State, string>> = {
  idle: "Hold to talk",
  connecting: "Connecting…",
  talking: "Talking",
}

const isTalkKey = ({ key }: KeyboardEvent): boolean => key === " " || key === "Enter"

const useTalk = (streamId: StreamId, remote: ChannelId | null) => {
  const press = useRef<Press | null>(null)
  const before = useRef<Promise<void>>(Promise.resolve())
  const [state, setState] = useState<State>("idle")
  const [problem, setProblem] = useState<string | null>(null)

  const release = useCallback(() => {
    press.current?.release()
    press.current = null
    setState("idle")
  }, [])

  const hold = useCallback(() => {
    if (press.current !== null) return
    const mine = makePress()
    press.current = mine
    setState("connecting")
    setProblem(null)
    const failed = (words: string) => {
      setProblem(words)
      if (press.current === mine) release()
    }
    const talk = async () => {
      if (press.current !== mine) return
      mine.talk = await talkTo(streamId, remote, failed)
      if (press.current === mine) setState("talking")
      await mine.released
      await mine.talk.stop()
    }
    // Whoever presses again at once waits until the camera was left.
    before.current = before.current.then(talk).catch((error: unknown) => failed(messageOf(error)))
  }, [release, remote, streamId])

  useEffect(() => {
    const hidden = () => document.hidden && release()
    document.addEventListener("visibilitychange", hidden)
    window.addEventListener("blur", release)
    return () => {
      document.removeEventListener("visibilitychange", hidden)
      window.removeEventListener("blur", release)
      release()
    }
  }, [release])

  const level = useCallback(() => press.current?.talk?.level() ?? 0, [])
  return { hold, level, problem, release, state }
}

/** Draws the level for as long as somebody talks. */
const Meter = ({ level }: { readonly level: () => number }) => {
  const bar = useRef<HTMLElement>(null)
  useEffect(() => {
    let frame = 0
    const draw = () => {
      bar.current?.style.setProperty("--level", level().toFixed(3))
      frame = requestAnimationFrame(draw)
    }
    draw()
    return () => cancelAnimationFrame(frame)
  }, [level])
  return <i className="talk-level" ref={bar} aria-hidden="true" />
}

/** Nothing for those who may not talk. */
export const TalkButton = ({ cameraName, remote = null, streamId }: {
  readonly streamId: StreamId
  /** The channel as it is known here, where it is another node's. */
  readonly remote?: ChannelId | null
  readonly cameraName: string
}) => {
  const { may } = useSession()
  const { hold, level, problem, release, state } = useTalk(streamId, remote)
  if (!may("camera:talk")) return null
  const press = (event: PointerEvent<HTMLButtonElement>) => {
    if (event.button !== 0) return
    event.currentTarget.setPointerCapture(event.pointerId)
    hold()
  }
  const keyed = (event: KeyboardEvent) => {
    if (!isTalkKey(event)) return
    event.preventDefault()
    if (!event.repeat) hold()
  }
  return (
    <span className="talk">
      <button
        type="button"
        className={`talk-button ${state}`}
        aria-label={`${labels[state]}: ${cameraName}`}
        aria-pressed={state === "talking"}
        title="Hold to talk to the camera"
        onPointerDown={press}
        onPointerUp={release}
        onPointerCancel={release}
        onKeyDown={keyed}
        onKeyUp={(event) => isTalkKey(event) && release()}
        onBlur={release}
        onContextMenu={(event) => event.preventDefault()}
      >
        <Icon name="microphone" />
        {labels[state]}
        {state === "talking" && <Meter level={level} />}
      </button>
      {problem !== null && <span className="talk-problem" role="alert">{problem}</span>}
    </span>
  )
}
