/** Beside the bell: that cameras are served by another node than their own, or that a protection is not ready. */
import { useEffect } from "react"
import { failoverStatus } from "../api-reroutes.ts"
import { useLive } from "../live.tsx"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"
import { Icon } from "./icons.tsx"

/** Should no event tell. */
const askEvery = 15_000

export const RerouteBadge = () => {
  const { may } = useSession()
  const { nodesTurn } = useLive()
  const allowed = may("federation:read")
  const { data, refresh } = useQuery("failover-badge", failoverStatus, askEvery, allowed)
  useEffect(() => {
    if (nodesTurn > 0) refresh()
  }, [nodesTurn, refresh])
  if (!allowed || data === null || data.badge === "none" || data.badge === "ready") return null
  const words = data.badge === "attention" ?
    "Failover: not everything is ready" :
    data.serving.length > 0 ?
    `Failover: this node serves ${data.serving.map(({ name }) => name).join(", ")}` :
    "Failover: another node serves these cameras"
  return (
    <a className={`reroute-badge ${data.badge}`} href="#/reroutes" aria-label={words} title={words}>
      <Icon name="reroutes" />
    </a>
  )
}
