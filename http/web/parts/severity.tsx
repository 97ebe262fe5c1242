/** How bad it is, as a sign and for screen readers. */
import type { Severity } from "#schema/event.ts"
import { Icon } from "./icons.tsx"

const icons = { info: "info", warning: "trouble", critical: "trouble" } as const

export const SeverityIcon = ({ severity }: { readonly severity: Severity }) => (
  <span className={`severity ${severity}`} title={severity}>
    <Icon name={icons[severity]} />
    <span className="visually-hidden">{severity}:</span>
  </span>
)
