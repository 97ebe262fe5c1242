/** The log as a file, with what stands in the filters: how much has come is told, and it can be stopped. */
import { useRef, useState } from "react"
import { exportAudit } from "../api-audit.ts"
import { save } from "../download.ts"
import { sizeOf } from "../time.ts"
import { type Filter, queryOf } from "./audit-filters.tsx"
import { useAction } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { Problem } from "./notes.tsx"

export const AuditExport = ({ filter }: { readonly filter: Filter }) => {
  const [bytes, setBytes] = useState(0)
  const stop = useRef<AbortController | null>(null)
  const action = useAction()
  const begin = (format: "csv" | "json") => {
    const controller = new AbortController()
    stop.current = controller
    setBytes(0)
    const read = () =>
      exportAudit(format, queryOf(filter), setBytes, controller.signal).catch((failure: unknown) => {
        if (controller.signal.aborted) return null
        throw failure
      })
    action.run(read, (file) => file !== null && save(`nightjar-audit.${format}`, file))
  }
  if (action.busy) {
    return (
      <span className="row" role="status">
        <span className="small muted number">{sizeOf(bytes)} so far</span>
        <button type="button" onClick={() => stop.current?.abort()}>Stop</button>
      </span>
    )
  }
  return (
    <>
      <Problem error={action.error} />
      <button type="button" onClick={() => begin("csv")}>
        <Icon name="download" />CSV
      </button>
      <button type="button" onClick={() => begin("json")}>
        <Icon name="download" />JSON
      </button>
    </>
  )
}
