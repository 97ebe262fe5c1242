/** Adding a phone as a camera: a name, then a QR code for the phone, until it is registered. */
import type { DeviceUuid } from "#schema/camera-mobile.ts"
import { useEffect, useState } from "react"
import { phoneStatus, preparePhone } from "../api-phone.ts"
import { momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"
import { Copyable, Form, Text, useAction } from "./forms.tsx"
import { Badge, Problem } from "./notes.tsx"

const askEveryMs = 2_000

type Ticket = Awaited<ReturnType<typeof preparePhone>>
type Status = Awaited<ReturnType<typeof phoneStatus>>

/** Asks until the phone sends or the code has expired. */
const useStatus = (deviceUuid: DeviceUuid) => {
  const [over, setOver] = useState(false)
  const { data, error } = useQuery(`phone ${deviceUuid}`, () => phoneStatus(deviceUuid), askEveryMs, !over)
  const told = data?.state === "expired" || data?.publishing === true
  useEffect(() => {
    if (told) setOver(true)
  }, [told])
  return { data, error }
}

const progress = (status: Status | null): { readonly state: string; readonly text: string } => {
  if (status === null || status.state === "prepared") return { state: "waiting", text: "waiting for the phone" }
  if (status.state === "expired") return { state: "failed", text: "the code has expired" }
  return status.publishing ? { state: "online", text: "sending" } : { state: "ok", text: "registered" }
}

const Scan = ({ onDone, ticket }: { readonly ticket: Ticket; readonly onDone: () => void }) => {
  const { data, error } = useStatus(ticket.deviceUuid)
  const now = progress(data)
  return (
    <div className="stack">
      <p>
        Scan this with the phone, then press <em>Register this phone</em> and <em>Start sending</em> there.
      </p>
      <img
        className="qr"
        src={`data:image/svg+xml,${encodeURIComponent(ticket.qrSvg)}`}
        alt="QR code of the phone's page"
        width="220"
        height="220"
      />
      <Problem
        error={ticket.url.startsWith("https:") ?
          null :
          "A phone gives pages its camera only over HTTPS, and this dashboard was opened without it. Open it by its https address and " +
          "add the phone from there."}
      />
      <Copyable label="Address" text={ticket.url} />
      <p className="row">
        <Badge state={now.state} text={now.text} />
        <span className="small muted">The code is good once, until {momentOf(ticket.expiresAt)}.</span>
      </p>
      <Problem error={error} />
      <div className="actions">
        <button type="button" className="primary" onClick={onDone}>Done</button>
      </div>
    </div>
  )
}

/** To be shown in a dialog; `onDone` also when it was given up. */
export const AddPhone = ({ onDone }: { readonly onDone: () => void }) => {
  const [name, setName] = useState("")
  const [ticket, setTicket] = useState<Ticket | null>(null)
  const action = useAction()
  if (ticket !== null) return <Scan ticket={ticket} onDone={onDone} />
  return (
    <Form
      action={action}
      verb="Show the code"
      onSubmit={() => action.run(() => preparePhone(name.trim()), setTicket)}
      onCancel={onDone}
    >
      <Text label="Name" required maxLength={120} value={name} onChange={setName} hint="What the camera is called" />
    </Form>
  )
}
