/** Who holds what of the footage in view, and whose is missing because it did not answer. */
import type { FederatedSource } from "#schema/bff-federation.ts"
import { lengthOf } from "../time.ts"
import { Icon } from "./icons.tsx"
import type { TimelineSpan, View } from "./timeline.tsx"

const nameOf = ({ name }: FederatedSource) => name === "" ? "this node" : name

/** Above the timeline, where it is not all there is. */
export const Missing = ({ sources }: { readonly sources: ReadonlyArray<FederatedSource> }) => {
  const silent = sources.filter(({ state }) => state === "unreachable" || state === "refused")
  if (silent.length === 0) return null
  return (
    <div className="partial" role="status">
      <Icon name="trouble" />
      <span>
        {silent.map((one) => (
          <span key={one.nodeId} className="block">
            {one.state === "unreachable" ?
              `${nameOf(one)} did not answer; its footage is missing here.` :
              `${nameOf(one)} does not show its footage to this node; it is missing here.`}
          </span>
        ))}
      </span>
    </div>
  )
}

interface Props {
  readonly sources: ReadonlyArray<FederatedSource>
  readonly spans: ReadonlyArray<TimelineSpan>
  readonly view: View
}

export const Holders = ({ sources, spans, view }: Props) => {
  if (sources.length === 0) return null
  const held = (name: string) =>
    spans.filter((span) => span.holder === name)
      .reduce((sum, { end, start }) => sum + Math.max(0, Math.min(end, view.end) - Math.max(start, view.start)), 0)
  return (
    <section className="panel" aria-label="Where this footage is">
      <h2>Where this footage is</h2>
      <ul className="plain-list small">
        {sources.map((one) => {
          const ms = held(nameOf(one))
          return (
            <li key={one.nodeId} className="spread">
              <span className="grow cut">{nameOf(one)}</span>
              <span className="number muted">
                {one.state === "unreachable" ?
                  "did not answer" :
                  one.state === "refused" ?
                  "refused" :
                  ms === 0 ?
                  "none in this view" :
                  lengthOf(ms)}
              </span>
            </li>
          )
        })}
      </ul>
    </section>
  )
}
