/** First step of adding cameras: which ones, found on the network or by their address. */
import { useState } from "react"
import { discoverCameras } from "../api-camera-add.ts"
import { type Query, useQuery } from "../use-query.ts"
import { addressOf, type Candidate, candidateOf, candidateOfText } from "./camera-candidate.ts"
import { Check, Text } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { Problem } from "./notes.tsx"

/** What the network has answered so far. */
export const useSearch = () => {
  const [turn, setTurn] = useState(0)
  const query: Query<ReadonlyArray<Candidate>> = useQuery(
    `discover ${turn}`,
    async () => (await discoverCameras()).map(candidateOf),
    0,
  )
  return { ...query, again: () => setTurn((n) => n + 1) }
}

type Search = ReturnType<typeof useSearch>

interface RowProps {
  readonly candidate: Candidate
  readonly chosen: boolean
  readonly onChoose: (chosen: boolean) => void
}

const Row = ({ candidate, chosen, onChoose }: RowProps) => {
  const known = candidate.cameraId !== null
  return (
    <li className={known ? "muted" : ""}>
      <Check
        label={<strong className="any-break">{candidate.title}</strong>}
        checked={chosen && !known}
        disabled={known}
        onChange={onChoose}
        hint={
          <>
            <span className="mono any-break">{addressOf(candidate)}</span>
            {candidate.model !== "" && ` · ${candidate.model}`}
          </>
        }
      />
      {known && <a className="chip" href={`#/cameras/${candidate.cameraId}`}>already added</a>}
    </li>
  )
}

const ByAddress = ({ onAdd }: { readonly onAdd: (candidate: Candidate) => void }) => {
  const [text, setText] = useState("")
  const [subUrl, setSubUrl] = useState("")
  const [error, setError] = useState<string | null>(null)
  const stream = /^rtsps?:/i.test(text.trim())
  const add = () => {
    const candidate = candidateOfText(text, stream ? subUrl : "")
    setError(candidate === null ? "That is no address: write 192.168.1.20 or rtsp://192.168.1.20/stream1" : null)
    if (candidate === null) return
    onAdd(candidate)
    setText("")
    setSubUrl("")
  }
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault()
        add()
      }}
    >
      <Text
        label="Address of a camera, or of its stream"
        name="address"
        required
        maxLength={2048}
        placeholder="192.168.1.20 or rtsp://192.168.1.20/stream1"
        value={text}
        onChange={setText}
        hint="A camera that speaks ONVIF needs its address alone. For any other, its manual tells the RTSP address."
      />
      {stream && (
        <Text
          label="RTSP address of its sub-stream (optional)"
          name="subAddress"
          maxLength={2048}
          value={subUrl}
          onChange={setSubUrl}
          hint="A smaller picture of the same, for small tiles and telephones."
        />
      )}
      <Problem error={error} />
      <div className="actions">
        <button type="submit">
          <Icon name="plus" />Put on the list
        </button>
      </div>
    </form>
  )
}

interface Props {
  readonly search: Search
  /** All of them: found ones, then those by hand. */
  readonly candidates: ReadonlyArray<Candidate>
  readonly chosen: ReadonlySet<string>
  readonly onChoose: (keys: ReadonlyArray<string>, chosen: boolean) => void
  readonly onAdd: (candidate: Candidate) => void
  readonly onNext: () => void
}

export const FindStep = ({ candidates, chosen, onAdd, onChoose, onNext, search }: Props) => {
  const searching = search.data === null && search.error === null
  const open = candidates.filter(({ cameraId }) => cameraId === null)
  const all = open.length > 0 && open.every(({ key }) => chosen.has(key))
  return (
    <div className="wizard-step">
      <section className="panel stack" aria-label="Cameras on the network">
        <div className="spread">
          <h2>On the network</h2>
          <button type="button" disabled={searching} onClick={search.again}>
            <Icon name="search" />
            {searching ? "Searching…" : "Search again"}
          </button>
        </div>
        <Problem error={search.error} />
        {searching && (
          <p className="row muted" role="status">
            <span className="pulse dark" />Listening for cameras that speak ONVIF…
          </p>
        )}
        {!searching && candidates.length === 0 && (
          <p className="muted">
            No camera answered. Searches do not cross routers, and some cameras have discovery or ONVIF switched off:
            write the address of one below.
          </p>
        )}
        {open.length > 1 && (
          <Check
            label={`All ${open.length}`}
            checked={all}
            onChange={(checked) => onChoose(open.map(({ key }) => key), checked)}
          />
        )}
        {candidates.length > 0 && (
          <ul className="plain-list found">
            {candidates.map((one) => (
              <Row
                key={one.key}
                candidate={one}
                chosen={chosen.has(one.key)}
                onChoose={(checked) => onChoose([one.key], checked)}
              />
            ))}
          </ul>
        )}
      </section>
      <section className="panel" aria-label="By address">
        <ByAddress onAdd={onAdd} />
      </section>
      <div className="actions">
        <a className="button" href="#/cameras">Cancel</a>
        <button type="button" className="primary" disabled={chosen.size === 0} onClick={onNext}>
          {chosen.size === 0 ?
            "Choose a camera" :
            chosen.size === 1 ?
            "Go on with 1 camera" :
            `Go on with ${chosen.size} cameras`}
        </button>
      </div>
    </div>
  )
}
