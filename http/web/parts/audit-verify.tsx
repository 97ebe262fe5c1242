/** Whether the log is as it was written: walks its chain of hashes, and shows the verdict as a seal. */
import type { AuditFault, AuditVerification } from "#schema/auth-audit.ts"
import { useEffect, useRef, useState } from "react"
import { verifyAudit } from "../api-audit.ts"
import { useAction } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { Problem } from "./notes.tsx"

const Fault = ({ fault, onOpen }: { readonly fault: AuditFault; readonly onOpen: (id: string) => void }) => {
  const { explanation, id, reason, sequence } = fault
  return (
    <p>
      First bad entry: {id === null ?
        <strong className="number">number {sequence}</strong> :
        <button type="button" className="link number" onClick={() => onOpen(id)}>number {sequence}</button>}, {reason}.
      {" "}
      {explanation}
    </p>
  )
}

interface SealProps {
  readonly verdict: AuditVerification
  readonly onOpen: (id: string) => void
}

const Seal = ({ onOpen, verdict }: SealProps) => {
  const { checked, fault, head, intact, signedHeads } = verdict
  return (
    <>
      <span className={`seal ${intact ? "good" : "bad"}`}>
        <Icon name={intact ? "security" : "trouble"} />
      </span>
      <div className="grow">
        <h2>{intact ? "As it was written" : "Somebody has changed the log"}</h2>
        {fault !== null && <Fault fault={fault} onOpen={onOpen} />}
        <p className="small muted">
          {checked} {checked === 1 ? "entry" : "entries"} checked, compared with {signedHeads} signed{" "}
          {signedHeads === 1 ? "head" : "heads"} outside of the database. Newest: number {head.sequence},{" "}
          <span className="mono" title={head.hash}>{head.hash.slice(0, 12)}…</span>
        </p>
      </div>
    </>
  )
}

const Unknown = ({ part }: { readonly part: AuditVerification | null }) => (
  <>
    <span className="seal">
      <Icon name="security" />
    </span>
    <div className="grow">
      <h2>Is the log as it was written?</h2>
      <p className="small muted">
        {part === null ?
          "Every entry carries the hash of the one before it, and signed heads are kept outside of the database: an edit, a deletion or an insertion shows." :
          `${part.checked} entries checked, up to number ${part.to} of ${part.head.sequence}`}
      </p>
      {part !== null && <progress max={part.head.sequence} value={part.to} aria-label="Checked" />}
    </div>
  </>
)

export const AuditSeal = ({ onOpen }: Pick<SealProps, "onOpen">) => {
  const [part, setPart] = useState<AuditVerification | null>(null)
  const [verdict, setVerdict] = useState<AuditVerification | null>(null)
  const stop = useRef<AbortController | null>(null)
  const action = useAction()
  useEffect(() => () => stop.current?.abort(), [])
  const verify = () => {
    const controller = new AbortController()
    stop.current = controller
    setPart(null)
    setVerdict(null)
    action.run(() => verifyAudit(setPart, controller.signal), setVerdict)
  }
  return (
    <section className="panel" aria-label="Integrity" aria-live="polite">
      <div className="verify">
        {verdict === null ? <Unknown part={action.busy ? part : null} /> : <Seal verdict={verdict} onOpen={onOpen} />}
        {action.busy ?
          <button type="button" onClick={() => stop.current?.abort()}>Stop</button> :
          <button type="button" onClick={verify}>{verdict === null ? "Verify" : "Verify again"}</button>}
      </div>
      <Problem error={action.error} />
    </section>
  )
}
