/** Moves a camera: a pad to press and hold, keys, a gamepad; where it looks now. */
import { type PointerEvent, useEffect, useMemo, useRef, useState } from "react"
import { gotoHome, moveAt, positionOf, setHome, stopMoving, type Target } from "../api-camera.ts"
import { messageOf } from "../api.ts"
import { useSession } from "../session.tsx"
import { clockOf } from "../time.ts"
import { useQuery } from "../use-query.ts"
import { isMoveKey, Motion, type Velocity, velocityOf, velocityOfKeys } from "./camera-motion.ts"
import { useAction } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { Problem } from "./notes.tsx"

/** The pad from the upper left to the lower right: name, left and right, down and up, where its arrow points in degrees. */
const directions = [
  ["Up and left", -1, 1, -45],
  ["Up", 0, 1, 0],
  ["Up and right", 1, 1, 45],
  ["Left", -1, 0, -90],
  ["Home", 0, 0, 0],
  ["Right", 1, 0, 90],
  ["Down and left", -1, -1, -135],
  ["Down", 0, -1, 180],
  ["Down and right", 1, -1, 135],
] as const

type Want = (velocity: Velocity | null) => void

const useMotion = (target: Target) => {
  const [error, setError] = useState<string | null>(null)
  const motion = useMemo(() => {
    const { id, profileToken } = target
    return new Motion<Velocity>({
      move: (velocity, timeoutMs) => moveAt({ id, profileToken }, velocity, timeoutMs),
      stop: () => stopMoving({ id, profileToken }),
      onError: (failure) => setError(messageOf(failure)),
    })
  }, [target.id, target.profileToken])
  // Whoever goes to another page or window holds nothing down any more.
  useEffect(() => {
    const rest = () => motion.want(null)
    window.addEventListener("blur", rest)
    document.addEventListener("visibilitychange", rest)
    return () => {
      window.removeEventListener("blur", rest)
      document.removeEventListener("visibilitychange", rest)
      rest()
    }
  }, [motion])
  const want: Want = (velocity) => {
    if (velocity !== null) setError(null)
    motion.want(velocity)
  }
  return { want, error }
}

const writes = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.closest("input, select, textarea, [role=slider], .live-view") !== null

/** Arrows turn, + and − zoom, unless somebody is writing or a dialog is open. */
const useKeys = (speed: number, want: Want) => {
  const latest = useRef({ speed, want })
  latest.current = { speed, want }
  useEffect(() => {
    const held = new Set<string>()
    const tell = () => latest.current.want(velocityOfKeys(held, latest.current.speed))
    const down = (event: KeyboardEvent) => {
      const busy = writes(event.target) || document.querySelector("dialog[open]") !== null
      if (!isMoveKey(event.key) || busy || event.ctrlKey || event.metaKey || event.altKey) return
      event.preventDefault()
      held.add(event.key)
      tell()
    }
    const up = (event: KeyboardEvent) => {
      if (held.delete(event.key)) tell()
    }
    const away = () => held.clear()
    window.addEventListener("keydown", down)
    window.addEventListener("keyup", up)
    window.addEventListener("blur", away)
    return () => {
      window.removeEventListener("keydown", down)
      window.removeEventListener("keyup", up)
      window.removeEventListener("blur", away)
    }
  }, [])
}

/** Follows the first gamepad; true while there is one. */
const useGamepad = (speed: number, want: Want): boolean => {
  const [there, setThere] = useState(() => navigator.getGamepads().some((pad) => pad !== null))
  const latest = useRef({ speed, want })
  latest.current = { speed, want }
  useEffect(() => {
    const look = () => setThere(navigator.getGamepads().some((pad) => pad !== null))
    window.addEventListener("gamepadconnected", look)
    window.addEventListener("gamepaddisconnected", look)
    return () => {
      window.removeEventListener("gamepadconnected", look)
      window.removeEventListener("gamepaddisconnected", look)
    }
  }, [])
  useEffect(() => {
    if (!there) return
    let frame = 0
    let moved = false
    const read = () => {
      const pad = navigator.getGamepads().find((one) => one !== null)
      const velocity = velocityOf(pad?.axes ?? [], latest.current.speed)
      // A stick at rest does not let go of what a key holds.
      if (velocity !== null || moved) latest.current.want(velocity)
      moved = velocity !== null
      frame = requestAnimationFrame(read)
    }
    frame = requestAnimationFrame(read)
    return () => {
      cancelAnimationFrame(frame)
      if (moved) latest.current.want(null)
    }
  }, [there])
  return there
}

interface HoldProps {
  readonly label: string
  readonly velocity: Velocity
  readonly want: Want
  readonly children: React.ReactNode
}

/** Moves while it is held down, by a pointer or by the space bar. */
const Hold = ({ children, label, velocity, want }: HoldProps) => {
  const rest = () => want(null)
  const press = (event: PointerEvent<HTMLButtonElement>) => {
    if (event.button !== 0) return
    event.currentTarget.setPointerCapture(event.pointerId)
    want(velocity)
  }
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      onPointerDown={press}
      onPointerUp={rest}
      onPointerCancel={rest}
      onLostPointerCapture={rest}
      onContextMenu={(event) => event.preventDefault()}
      onKeyDown={(event) => (event.key === " " || event.key === "Enter") && want(velocity)}
      onKeyUp={(event) => (event.key === " " || event.key === "Enter") && rest()}
      onBlur={rest}
    >
      {children}
    </button>
  )
}

const degrees = (value: number | null) => value === null ? "—" : value.toFixed(2)

const Position = ({ target }: { readonly target: Target }) => {
  const { user } = useSession()
  const status = useQuery(`ptz ${target.id} ${target.profileToken}`, () => positionOf(target), 1500)
  if (status.data === null) return null
  const { error, holder, moving, pan, tilt, zoom } = status.data
  return (
    <p className="small muted number" data-testid="position">
      {moving === true ? "moving" : "at"} {degrees(pan)} across, {degrees(tilt)} up, zoom {degrees(zoom)}
      {holder !== null && (
        <span className="block">
          {holder.username === user.username ?
            "You move it." :
            `${holder.username} moves it until ${clockOf(holder.until)}.`}
        </span>
      )}
      {error !== "" && <span className="block">The camera says: {error}</span>}
    </p>
  )
}

const Home = ({ target }: { readonly target: Target }) => {
  const action = useAction()
  return (
    <>
      <div className="row">
        <button type="button" disabled={action.busy} onClick={() => action.run(() => gotoHome(target))}>
          <Icon name="home" />Go home
        </button>
        <button
          type="button"
          disabled={action.busy}
          title="Where the camera looks now becomes its home position"
          onClick={() => action.run(() => setHome(target))}
        >
          Make this home
        </button>
      </div>
      <Problem error={action.error} />
    </>
  )
}

export const PtzPad = ({ target }: { readonly target: Target }) => {
  const [percent, setPercent] = useState(50)
  const { error, want } = useMotion(target)
  const speed = percent / 100
  useKeys(speed, want)
  const gamepad = useGamepad(speed, want)
  return (
    <section className="stack" aria-label="Move">
      <div className="ptz">
        <div className="pad" role="group" aria-label="Direction">
          {directions.map(([name, pan, tilt, turned]) => (
            name === "Home" ?
              <span key={name} className="hub" aria-hidden="true" /> :
              (
                <Hold key={name} label={name} velocity={{ pan: pan * speed, tilt: tilt * speed, zoom: 0 }} want={want}>
                  <span className="turned" style={{ rotate: `${turned}deg` }}>
                    <Icon name="up" />
                  </span>
                </Hold>
              )
          ))}
        </div>
        <div className="zoom" role="group" aria-label="Zoom">
          <Hold label="Zoom in" velocity={{ pan: 0, tilt: 0, zoom: speed }} want={want}>
            <Icon name="plus" />
          </Hold>
          <span className="small muted" aria-hidden="true">Zoom</span>
          <Hold label="Zoom out" velocity={{ pan: 0, tilt: 0, zoom: -speed }} want={want}>
            <Icon name="minus" />
          </Hold>
        </div>
      </div>
      <label className="level">
        <span>Speed</span>
        <span className="number" aria-hidden="true">{percent} %</span>
        <input
          type="range"
          min={10}
          max={100}
          step={10}
          value={percent}
          onChange={(event) => setPercent(event.target.valueAsNumber)}
        />
      </label>
      <Problem error={error} />
      <Position target={target} />
      <Home target={target} />
      <p className="small muted">
        Hold a button, or the keys <kbd>←</kbd> <kbd>→</kbd> <kbd>↑</kbd> <kbd>↓</kbd> <kbd>+</kbd> <kbd>−</kbd>.
        {gamepad ? " The gamepad moves it: left stick turns, right stick zooms." : ""}
      </p>
    </section>
  )
}
