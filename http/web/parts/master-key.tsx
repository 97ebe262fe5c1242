/** The master key that seals secrets on the node: which one it is, and renewing it without a stop. */
import type { MasterKeyState } from "#schema/auth-vault.ts"
import { useState } from "react"
import { masterKey, rotateMasterKey } from "../api-security.ts"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"
import { Confirm } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { Badge, Loading, Problem } from "./notes.tsx"

const sources = {
  file: "a file in the data folder",
  setting: "the operator's setting; it is changed there",
} as const

const Progress = ({ state: { left } }: { readonly state: MasterKeyState }) => (
  <div className="stack" role="status">
    <p>
      {left === 0 ?
        "Every secret is sealed anew. The key of before is kept for a minute or two yet, for what was on its way." :
        `Secrets of before are being sealed anew${left === null ? "" : `: ${left} left`}. This goes on over a restart.`}
      {" "}
      Everything works meanwhile.
    </p>
    <progress aria-label="Sealing secrets anew" />
  </div>
)

const Facts = ({ state }: { readonly state: MasterKeyState }) => (
  <dl className="details">
    <div>
      <dt>Key in force</dt>
      <dd className="mono">{state.keyId}</dd>
    </div>
    <div>
      <dt>Comes from</dt>
      <dd>{sources[state.source]}</dd>
    </div>
    {state.olderKeyIds.length > 0 && (
      <div>
        <dt>Keys of before, still needed</dt>
        <dd className="mono">{state.olderKeyIds.join(", ")}</dd>
      </div>
    )}
  </dl>
)

export const MasterKey = () => {
  const { may } = useSession()
  const state = useQuery("master-key", masterKey, 2000)
  const [asking, setAsking] = useState(false)
  const known = state.data
  if (known === null) return state.error === null ? <Loading lines={3} /> : <Problem error={state.error} />
  const settled = known.state === "settled"
  const done = () => {
    setAsking(false)
    state.refresh()
  }
  return (
    <section className="panel stack" aria-labelledby="master-key">
      <div className="spread">
        <h2 id="master-key">Master key</h2>
        <Badge state={settled ? "ok" : "probing"} text={settled ? "settled" : "being renewed"} />
      </div>
      <p className="muted">
        It seals what must not be read on the disk or in the database: passwords of cameras and of the mail server,
        signing keys, second factors.
      </p>
      <Facts state={known} />
      {!settled && <Progress state={known} />}
      <Problem error={state.error ?? known.error} />
      {may("system:write") && known.source === "file" && (
        <div className="row">
          <button type="button" disabled={!settled} onClick={() => setAsking(true)}>
            <Icon name="key" />Renew the key
          </button>
        </div>
      )}
      {asking && (
        <Confirm title="Renew the master key?" verb="Renew" act={rotateMasterKey} onDone={done}>
          <p>
            A new key seals from now on, and every secret is sealed anew. The old key is forgotten at the end: backups
            of the data folder from before need the key file that was saved with them.
          </p>
        </Confirm>
      )}
    </section>
  )
}
