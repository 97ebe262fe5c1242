/** Second step of adding cameras: user name and password, tried at once, and what each camera said to them. */
import { useState } from "react"
import { addTogether, type Credentials, inParallel, type Outcome, tryStream } from "../api-camera-add.ts"
import { addressOf, type Candidate } from "./camera-candidate.ts"
import { Check, Text } from "./forms.tsx"
import { Icon } from "./icons.tsx"

/** Streams that are tried at the same time; cameras that speak ONVIF are one piece of work for the node. */
const width = 3

export type Outcomes = Readonly<Record<string, Outcome | "trying">>

interface CredentialsProps {
  readonly value: Credentials
  readonly onChange: (value: Credentials) => void
  /** Whose they are; null: of all. */
  readonly of: string | null
}

const CredentialFields = ({ of, onChange, value }: CredentialsProps) => {
  const named = (what: string) =>
    of === null ? what : (
      <>
        {what}
        <span className="visually-hidden">{" of "}{of}</span>
      </>
    )
  return (
    <div className="two">
      <Text
        label={named("User name")}
        name="cameraUser"
        maxLength={256}
        value={value.username}
        onChange={(username) => onChange({ ...value, username })}
      />
      <Text
        label={named("Password")}
        name="cameraPassword"
        type="password"
        autoComplete="new-password"
        maxLength={512}
        value={value.password}
        onChange={(password) => onChange({ ...value, password })}
      />
    </div>
  )
}

const Result = ({ outcome }: { readonly outcome: Outcome | "trying" | undefined }) => {
  if (outcome === undefined) return null
  if (outcome === "trying") {
    return (
      <p className="row small muted" role="status">
        <span className="pulse dark" />Asking it…
      </p>
    )
  }
  if (outcome.kind === "failed") {
    return (
      <p className="row small result bad" role="alert">
        <Icon name="trouble" />
        <span className="grow any-break">{outcome.why}</span>
      </p>
    )
  }
  const { channels } = outcome.camera
  return (
    <p className="row small result good" role="status">
      <Icon name="tick" />
      {channels.length === 1 ? "Added" : `Added, with ${channels.length} channels`}
    </p>
  )
}

interface ProgressProps {
  readonly asked: number
  readonly added: number
  readonly of: number
}

const Progress = ({ added, asked, of }: ProgressProps) => (
  <div>
    <progress aria-label="Cameras asked" max={of} value={asked} />
    <p className="small muted number" role="status">{asked} of {of} asked, {added} added</p>
  </div>
)

interface Props {
  readonly candidates: ReadonlyArray<Candidate>
  readonly outcomes: Outcomes
  readonly onOutcome: (key: string, outcome: Outcome | "trying") => void
  readonly onBack: () => void
  readonly onNext: () => void
}

const nobody: Credentials = { username: "", password: "" }
const isAdded = (outcome: Outcome | "trying" | undefined) => typeof outcome === "object" && outcome.kind === "added"

export const TryStep = ({ candidates, onBack, onNext, onOutcome, outcomes }: Props) => {
  const [shared, setShared] = useState<Credentials>(nobody)
  const [own, setOwn] = useState<Readonly<Record<string, Credentials>>>({})
  const [each, setEach] = useState(false)
  const left = candidates.filter(({ key }) => !isAdded(outcomes[key]))
  const trying = candidates.filter(({ key }) => outcomes[key] === "trying").length
  const busy = trying > 0
  const added = candidates.length - left.length
  const wantsOwn = ({ key }: Candidate): boolean => {
    const outcome = outcomes[key]
    const refused = typeof outcome === "object" && outcome.kind === "failed" && outcome.refused
    // Where the others took them, this one has other ones.
    return candidates.length > 1 && (each || (refused && added > 0))
  }
  const attempt = () => {
    for (const { key } of left) onOutcome(key, "trying")
    const credentialsOf = (one: Candidate) => wantsOwn(one) ? own[one.key] ?? shared : shared
    const cameras = left.flatMap((one) =>
      one.kind === "onvif" ? [{ candidate: one, credentials: credentialsOf(one) }] : []
    )
    const streams = left.flatMap((one) => one.kind === "rtsp" ? [one] : [])
    void addTogether(cameras, onOutcome)
    void inParallel(streams, width, async (one) => onOutcome(one.key, await tryStream(one, credentialsOf(one))))
  }
  return (
    <form
      className="wizard-step"
      onSubmit={(event) => {
        event.preventDefault()
        attempt()
      }}
    >
      <section className="panel stack" aria-label="Credentials">
        {left.some((one) => !wantsOwn(one)) && (
          <>
            <h2>
              {candidates.length === 1 ?
                "User name and password of the camera" :
                "User name and password of the cameras"}
            </h2>
            <CredentialFields of={null} value={shared} onChange={setShared} />
          </>
        )}
        {candidates.length > 1 && left.length > 0 && (
          <Check label="Each camera has its own" checked={each} onChange={setEach} />
        )}
        {candidates.length > 1 && Object.keys(outcomes).length > 0 && (
          <Progress asked={candidates.length - trying} added={added} of={candidates.length} />
        )}
        <ul className="plain-list">
          {candidates.map((candidate) => (
            <li key={candidate.key} className="stack tight" aria-label={candidate.title}>
              <div className="spread">
                <strong className="any-break">{candidate.title}</strong>
                <span className="small mono muted any-break">{addressOf(candidate)}</span>
              </div>
              <Result outcome={outcomes[candidate.key]} />
              {wantsOwn(candidate) && !isAdded(outcomes[candidate.key]) && outcomes[candidate.key] !== "trying" && (
                <CredentialFields
                  of={candidate.title}
                  value={own[candidate.key] ?? shared}
                  onChange={(value) => setOwn((old) => ({ ...old, [candidate.key]: value }))}
                />
              )}
            </li>
          ))}
        </ul>
      </section>
      <div className="actions">
        {added === 0 && <button type="button" disabled={busy} onClick={onBack}>Back</button>}
        {left.length > 0 && (
          <button type="submit" className={added === 0 ? "primary" : ""} disabled={busy}>
            {busy ? "Asking the cameras…" : Object.keys(outcomes).length > 0 ? "Try again" : "Add and try"}
          </button>
        )}
        {added > 0 && (
          <button type="button" className="primary" disabled={busy} onClick={onNext}>
            {added === 1 ? "Go on with 1 camera" : `Go on with ${added} cameras`}
          </button>
        )}
      </div>
    </form>
  )
}
