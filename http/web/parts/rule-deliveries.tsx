/** What a rule has delivered, with every attempt; and what became of a test. */
import type { ChannelKind, Delivery, PopupRule, RuleTest } from "#schema/notification-rules.ts"
import { deliveriesOf } from "../api-rules.ts"
import { titleOf } from "../event-words.ts"
import { lengthOf, momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"
import { Badge, Empty, Loading, Problem } from "./notes.tsx"

export const channelNames: Readonly<Record<ChannelKind, string>> = {
  inApp: "dashboard",
  email: "e-mail",
  webhook: "webhook",
  webPush: "Web Push",
}

const tones = {
  delivered: "ok",
  waiting: "probing",
  failed: "fail",
  dropped: "fail",
  rejected: "fail",
  gone: "fail",
} as const

const Entry = ({ delivery }: { readonly delivery: Delivery }) => (
  <li>
    <div className="spread">
      <span className="grow">
        <strong>{channelNames[delivery.channel]}</strong> <span className="small cut">{delivery.target}</span>
      </span>
      <Badge state={tones[delivery.state]} text={delivery.state} />
    </div>
    <div className="small">{titleOf(delivery.eventType)} · {momentOf(delivery.createdAt)}</div>
    {delivery.attempts.map((attempt) => (
      <div key={attempt.at} className="small muted">
        {momentOf(attempt.at)}: {attempt.outcome}, {attempt.detail} ({lengthOf(attempt.tookMs)})
      </div>
    ))}
    {delivery.nextAttemptAt !== null && <div className="small muted">again at {momentOf(delivery.nextAttemptAt)}</div>}
  </li>
)

export const Deliveries = ({ rule }: { readonly rule: PopupRule }) => {
  const deliveries = useQuery(`deliveries ${rule.id}`, () => deliveriesOf(rule), 3000)
  if (deliveries.data === null) {
    return deliveries.error === null ? <Loading lines={4} /> : <Problem error={deliveries.error} />
  }
  if (deliveries.data.length === 0) {
    return (
      <Empty icon="bell" title="Nothing delivered yet">
        <p>As soon as something happens that fits the rule, each delivery stands here with its outcome, for 30 days.</p>
      </Empty>
    )
  }
  return <ul className="plain-list">{deliveries.data.map((one) => <Entry key={one.id} delivery={one} />)}</ul>
}

export const TestOutcome = ({ test }: { readonly test: RuleTest }) => (
  <div className="stack" role="status">
    {test.deliveries.length === 0 && (
      <p className="muted">
        The rule reaches nobody: it has no recipients who may be told, or no device takes Web Push.
      </p>
    )}
    {test.deliveries.map((one) => (
      <div key={`${one.channel} ${one.target}`} className={`outcome ${one.outcome === "delivered" ? "good" : "bad"}`}>
        <div className="spread">
          <span>
            <strong>{channelNames[one.channel]}</strong> {one.target}
          </span>
          <Badge state={tones[one.outcome]} text={one.outcome} />
        </div>
        <span className="small">{one.detail}</span>
      </div>
    ))}
  </div>
)
