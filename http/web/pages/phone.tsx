/**
 * The phone's page, for whoever holds the phone: becomes a camera by a code, and sends. Nobody signs in here.
 *
 * Invariants
 * 1. Nothing is sent before a person pressed the button, and it shows for as long as it is.
 */
import { useCallback, useEffect, useRef, useState } from "react"
import { Problem } from "../parts/notes.tsx"
import { claim, codeInAddress, forgetRegistration, readRegistration, type Registration } from "../phone-registration.ts"
import { publish, type PublishState } from "../whip.ts"

type Facing = "environment" | "user"

const insecure = (): string | null => {
  if (window.isSecureContext && "mediaDevices" in navigator) return null
  return location.protocol === "https:" ?
    "This browser gives pages no camera." :
    "Browsers give a page the camera only over HTTPS. Open this address with https:// in front, or ask for one that has it."
}

const words = (state: PublishState | null): { readonly text: string; readonly tone: string } => {
  if (state === null) return { text: "Not sending", tone: "idle" }
  if (state.kind === "live") return { text: "Sending", tone: "good" }
  if (state.kind === "connecting") return { text: "Connecting…", tone: "warn" }
  if (state.kind === "refused") return { text: "Not registered any more", tone: "bad" }
  return { text: `Trying again: ${state.reason}`, tone: "warn" }
}

/** The screen stays on while `wanted`: a page in the dark sends nothing. */
const useWakeLock = (wanted: boolean) => {
  useEffect(() => {
    if (!wanted || !("wakeLock" in navigator)) return
    let lock: WakeLockSentinel | null = null
    const ask = () => {
      if (document.visibilityState !== "visible") return
      void navigator.wakeLock.request("screen").then((got) => {
        lock = got
      }).catch(() => undefined)
    }
    ask()
    // A browser takes it away when the page is hidden.
    document.addEventListener("visibilitychange", ask)
    return () => {
      document.removeEventListener("visibilitychange", ask)
      void lock?.release().catch(() => undefined)
    }
  }, [wanted])
}

const Claim = ({ onClaimed }: { readonly onClaimed: (made: Registration) => void }) => {
  const [code, setCode] = useState(codeInAddress)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string | null>(null)
  const submit = () => {
    setBusy(true)
    setError(null)
    claim(code).then(onClaimed, (reason: unknown) => setError((reason as Error).message)).finally(() => setBusy(false))
  }
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      <p>This phone becomes a camera of the recorder that showed you the code.</p>
      <label className="field">
        <span>Code</span>
        <input
          value={code}
          onChange={(event) => setCode(event.target.value)}
          required
          maxLength={64}
          autoCapitalize="characters"
          autoComplete="off"
          spellCheck={false}
          className="mono"
        />
      </label>
      <Problem error={error} />
      <button type="submit" className="primary" disabled={busy}>Register this phone</button>
    </form>
  )
}

/** What to open; in words where the browser or the person refuses. */
const openCamera = async (facing: Facing, sound: boolean): Promise<MediaStream> => {
  const video = {
    facingMode: facing,
    width: { ideal: 1280 },
    height: { ideal: 720 },
    frameRate: { ideal: 25, max: 30 },
  }
  try {
    return await navigator.mediaDevices.getUserMedia({ video, audio: sound })
  } catch (error) {
    const name = error instanceof DOMException ? error.name : ""
    const text = name === "NotAllowedError" ?
      "The camera may not be used: allow it for this page in the browser's settings." :
      name === "NotFoundError" ?
      "There is no such camera or microphone." :
      name === "NotReadableError" ?
      "Another app uses the camera." :
      "The camera cannot be opened."
    throw new Error(text, { cause: error })
  }
}

interface SendProps {
  readonly registration: Registration
  readonly onForget: () => void
}

const Send = ({ onForget, registration }: SendProps) => {
  const preview = useRef<HTMLVideoElement>(null)
  const running = useRef<(() => void) | null>(null)
  const [facing, setFacing] = useState<Facing>("environment")
  const [sound, setSound] = useState(true)
  const [on, setOn] = useState(false)
  const [state, setState] = useState<PublishState | null>(null)
  const [error, setError] = useState<string | null>(null)
  useWakeLock(on)

  const stop = useCallback(() => {
    running.current?.()
    running.current = null
    setOn(false)
    setState(null)
  }, [])
  const start = useCallback((way: Facing, withSound: boolean) => {
    running.current?.()
    setError(null)
    setOn(true)
    let over = false
    let end = () => {}
    running.current = () => {
      over = true
      end()
    }
    openCamera(way, withSound).then((media) => {
      const stopPublishing = over ? () => {} : publish(media, registration.publishSecret, setState)
      end = () => {
        stopPublishing()
        for (const track of media.getTracks()) track.stop()
        if (preview.current !== null) preview.current.srcObject = null
      }
      if (over) return end()
      if (preview.current !== null) preview.current.srcObject = media
    }, (reason: unknown) => {
      if (over) return
      stop()
      setError((reason as Error).message)
    })
  }, [registration, stop])
  useEffect(() => stop, [stop])

  const choose = (way: Facing) => {
    setFacing(way)
    if (on) start(way, sound)
  }
  const { text, tone } = words(state)
  return (
    <div className="stack">
      <div className="spread">
        <strong className="cut">{registration.name}</strong>
        <span className={`badge ${tone}`} role="status">{text}</span>
      </div>
      <video ref={preview} className="phone-preview" autoPlay muted playsInline aria-label="What this phone sends" />
      <div className="row" role="group" aria-label="Camera">
        <button type="button" aria-pressed={facing === "environment"} onClick={() => choose("environment")}>
          Back
        </button>
        <button type="button" aria-pressed={facing === "user"} onClick={() => choose("user")}>Front</button>
        <label className="check">
          <input
            type="checkbox"
            checked={sound}
            disabled={on}
            onChange={(event) => setSound(event.target.checked)}
          />
          With sound
        </label>
      </div>
      <Problem error={error} />
      {state?.kind === "refused" && <p role="alert">Ask for a new code and register this phone again.</p>}
      {on ?
        <button type="button" onClick={stop}>Stop sending</button> :
        <button type="button" className="primary" onClick={() => start(facing, sound)}>Start sending</button>}
      <p className="small muted">
        Keep this page open and the screen on: a phone that is locked or shows another app sends nothing.
      </p>
      <button
        type="button"
        className="plain small"
        onClick={() => {
          stop()
          onForget()
        }}
      >
        Forget this registration
      </button>
    </div>
  )
}

export const PhonePage = () => {
  const [registration, setRegistration] = useState(() => codeInAddress() === "" ? readRegistration() : null)
  const trouble = insecure()
  useEffect(() => {
    document.title = "Phone camera · Nightjar"
  }, [])
  return (
    <main className="phone">
      <h1 className="row">
        <img src="/nightjar.svg" alt="" width="28" height="28" />
        Phone camera
      </h1>
      {trouble !== null ?
        <Problem error={trouble} /> :
        registration === null ?
        <Claim onClaimed={setRegistration} /> :
        (
          <Send
            registration={registration}
            onForget={() => {
              forgetRegistration()
              setRegistration(null)
            }}
          />
        )}
    </main>
  )
}
