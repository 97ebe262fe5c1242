/** The licence: in which state it is and why, what it grants, the machine it is bound to, who is signed in. */
import type { LicenseState, LicenseStatus, LicenseView } from "#schema/license.ts"
import { type ReactNode, useState } from "react"
import { cloudVerify, hardwareId, licence, licenceSessions, requestFile, verifyNow } from "../api-licence.ts"
import { save } from "../download.ts"
import { Copyable, useAction } from "../parts/forms.tsx"
import { Icon } from "../parts/icons.tsx"
import { ActivateForm, KeyForm, ReleaseDialog } from "../parts/licence-forms.tsx"
import { Badge, Loading, Modal, Problem } from "../parts/notes.tsx"
import { useSession } from "../session.tsx"
import { momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"

/** How each state looks, in the tones of {@link Badge}, and is called. */
const looks: Readonly<Record<LicenseState, readonly [tone: string, name: string]>> = {
  none: ["idle", "no licence"],
  pendingActivation: ["probing", "waiting for activation"],
  valid: ["ok", "valid"],
  expiring: ["warn", "ends soon"],
  grace: ["warn", "grace period"],
  restricted: ["fail", "restricted"],
  expired: ["fail", "expired"],
  invalid: ["fail", "invalid"],
  released: ["idle", "given back"],
}

const Facts = ({ facts }: { readonly facts: ReadonlyArray<readonly [name: string, value: ReactNode]> }) => (
  <dl className="details">
    {facts.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
)

const modes = { offline: "by a licence text", online: "by an activation code", key: "by a licence key" } as const

const Usage = (
  { limit, name, used }: { readonly name: string; readonly used: number | null; readonly limit: number | null },
) => {
  const share = used === null || limit === null || limit === 0 ? 0 : Math.min(100, used / limit * 100)
  return (
    <div>
      <div className="spread small">
        <span>{name}</span>
        <span className="number">
          <b>{used ?? "an unknown number"}</b> {limit === null ? "in use, no limit" : `of ${limit}`}
        </span>
      </div>
      {used !== null && limit !== null && (
        <div
          className={`meter ${share >= 100 ? "bad" : share >= 80 ? "warn" : ""}`}
          role="img"
          aria-label={`${used} of ${limit}`}
        >
          <i style={{ width: `${share}%` }} />
        </div>
      )}
    </div>
  )
}

const Warnings = ({ status }: { readonly status: LicenseStatus }) => (
  <>
    {status.restricted && (
      <p className="small">
        New cameras, channels, recordings and users are refused until this is settled. What runs goes on.
      </p>
    )}
    {status.clock.setBack && (
      <p className="small">
        The clock says {momentOf(status.clock.now)}, but {momentOf(status.clock.highWater)}{" "}
        was seen here before. Set the clock right.
      </p>
    )}
    {status.cloud?.lastFailure && (
      <p className="small">
        Last attempt to confirm, {momentOf(status.cloud.lastFailure.at)}: {status.cloud.lastFailure.message}
      </p>
    )}
  </>
)

const Grants = ({ view }: { readonly view: LicenseView }) => {
  const { license, status } = view
  const facts: Array<readonly [string, ReactNode]> = license === null ? [] : [
    ["Licence", <span key="id" className="mono">{license.licenseId}</span>],
    ["Customer", license.customer],
    ["Activated", `${momentOf(license.activatedAt)}, ${modes[license.mode]}`],
    ["Valid from", momentOf(license.notBefore)],
    ["Valid until", license.notAfter === null ? "for ever" : momentOf(license.notAfter)],
    ["Grace period", `${license.graceDays} days`],
    [
      "Features",
      license.limits.features.length === 0 ? "none beyond the basic ones" : license.limits.features.join(", "),
    ],
    ["Bound to", license.hardwareId === null ? "any machine" : "the hardware of this cluster"],
  ]
  if (view.keyHint !== null) facts.push(["Key", <span key="key" className="mono">…{view.keyHint}</span>])
  if (status.cloud !== null) facts.push(["To be confirmed by", momentOf(status.cloud.confirmBy)])
  if (status.graceUntil !== null) facts.push(["Everything works until", momentOf(status.graceUntil)])
  return (
    <div className="stack">
      {license === null && view.keyHint === null && (
        <p className="muted">
          {status.state === "none" ? "Without a licence nothing is restricted." : ""}{" "}
          To get one, download the request file below, send it to the vendor and activate what comes back.
        </p>
      )}
      {facts.length > 0 && <Facts facts={facts} />}
      <Usage name="Channels" used={status.usage.channels} limit={status.limits?.channels ?? null} />
      <Usage name="Signed in" used={status.usage.sessions} limit={status.limits?.sessions ?? null} />
    </div>
  )
}

type Open = "activate" | "key" | "license" | "release"

const Buttons = ({ onOpen, refresh, view }: {
  readonly view: LicenseView
  readonly onOpen: (open: Open) => void
  readonly refresh: () => void
}) => {
  const action = useAction()
  const installed = view.license !== null || view.status.state === "invalid"
  return (
    <>
      <Problem error={action.error} />
      <div className="row">
        <button type="button" className={installed ? "" : "primary"} onClick={() => onOpen("activate")}>
          {installed ? "Replace" : "Activate a licence"}
        </button>
        {view.serverConfigured && view.keyHint === null && (
          <button type="button" onClick={() => onOpen("key")}>Register a key</button>
        )}
        {installed && (
          <button type="button" disabled={action.busy} onClick={() => action.run(verifyNow, refresh)}>Check now</button>
        )}
        {view.status.cloud !== null && (
          <button
            type="button"
            disabled={action.busy}
            onClick={() => action.run(cloudVerify, refresh)}
          >
            Confirm with the server
          </button>
        )}
        {view.keyHint !== null && (
          <button type="button" className="danger" onClick={() => onOpen("release")}>Release the key</button>
        )}
        {installed && view.keyHint === null && (
          <button
            type="button"
            className="danger"
            onClick={() => onOpen("license")}
          >
            Deactivate
          </button>
        )}
      </div>
    </>
  )
}

const sourceNames = {
  machine: "Operating system",
  board: "Main board",
  network: "Network interfaces",
  node: "Identity of the node",
} as const

const Hardware = () => {
  const hardware = useQuery("hardware", hardwareId, 0)
  const action = useAction()
  const download = () =>
    action.run(requestFile, (file) => save(`nightjar-${hardware.data?.nodeId ?? "node"}.license-request.json`, file))
  return (
    <section className="panel stack" aria-labelledby="hardware">
      <div className="spread">
        <h2 id="hardware">This machine</h2>
        <button type="button" onClick={download} disabled={action.busy}>
          <Icon name="download" />Request file
        </button>
      </div>
      <Problem error={hardware.error ?? action.error} />
      {hardware.data !== null && (
        <>
          <Copyable label="Hardware id" text={hardware.data.hardwareId} />
          <ul className="plain-list">
            {hardware.data.sources.map((source) => (
              <li key={source.name} className="spread">
                <span>{sourceNames[source.name]}</span>
                <Badge state={source.available ? "ok" : "idle"} text={source.detail} />
              </li>
            ))}
          </ul>
          <p className="small muted">
            Each part is hashed: the id tells none of them. {hardware.data.rule.needed} of {hardware.data.rule.named}
            {" "}
            parts must stay the same for a licence of this machine.
          </p>
        </>
      )}
    </section>
  )
}

const SignedIn = () => {
  const sessions = useQuery("licence-sessions", licenceSessions, 15_000)
  if (sessions.data === null) return <Problem error={sessions.error} />
  const { inUse, items, limit } = sessions.data
  return (
    <section className="panel" aria-labelledby="signed-in">
      <div className="title">
        <h2 id="signed-in">Signed in</h2>
        <span className="small muted">{inUse} {limit === null ? "" : `of ${limit}`}</span>
      </div>
      <table>
        <thead>
          <tr>
            <th scope="col">User</th>
            <th scope="col">From</th>
            <th scope="col">Since</th>
            <th scope="col">Last seen</th>
          </tr>
        </thead>
        <tbody>
          {items.map((one) => (
            <tr key={one.sessionId}>
              <td>
                <strong>{one.username}</strong>
              </td>
              <td className="mono">{one.address}</td>
              <td>{momentOf(one.since)}</td>
              <td>{momentOf(one.lastHeartbeat)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

const Dialogs = (
  { onDone, open, server }: { readonly open: Open; readonly server: boolean; readonly onDone: () => void },
) => {
  if (open === "license" || open === "release") {
    return <ReleaseDialog what={open === "release" ? "key" : "license"} onDone={onDone} />
  }
  return (
    <Modal title={open === "key" ? "Register a licence key" : "Activate a licence"} onClose={onDone}>
      {open === "key" ? <KeyForm onDone={onDone} /> : <ActivateForm onDone={onDone} server={server} />}
    </Modal>
  )
}

export const LicencePage = () => {
  const { may } = useSession()
  const view = useQuery("licence", licence, 15_000)
  const [open, setOpen] = useState<Open | null>(null)
  const known = view.data
  const [tone, name] = known === null ? ["idle", ""] : looks[known.status.state]
  const done = () => {
    setOpen(null)
    view.refresh()
  }
  return (
    <>
      <div className="head">
        <h1>Licence</h1>
        {known !== null && <Badge state={tone} text={name} />}
      </div>
      <Problem error={view.error} />
      {known === null && view.error === null && <Loading lines={5} />}
      {known !== null && (
        <div className="stack">
          <section className="panel stack" aria-label="State">
            <p className={`verdict ${tone}`}>{known.status.reason}</p>
            <Warnings status={known.status} />
            <Grants view={known} />
            {may("license:write") && <Buttons view={known} onOpen={setOpen} refresh={view.refresh} />}
          </section>
          <Hardware />
          <SignedIn />
        </div>
      )}
      {open !== null && known !== null && <Dialogs open={open} server={known.serverConfigured} onDone={done} />}
    </>
  )
}
