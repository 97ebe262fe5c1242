/** Protections, a card each: how ready this node is to stand in for another, and what one may do about it. */
import type { ProtectionView } from "#schema/federation-failover.ts"
import type { ReactNode } from "react"
import { classWords, countOf, protectionWords, serves } from "../reroute-words.ts"
import { lengthOf, megabits, momentOf, sizeOf } from "../time.ts"
import { Badge, Why } from "./notes.tsx"
import type { Deed } from "./reroute-deeds.tsx"

const Fact = ({ children, name }: { readonly name: string; readonly children: ReactNode }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
)

const Snapshot = ({ snapshot }: Pick<ProtectionView, "snapshot">) => {
  if (snapshot.digest === null) return <Fact name="Configuration">none here yet</Fact>
  return (
    <>
      <Fact name="Configuration">
        {snapshot.stale ? "out of date" : "current"}
        {snapshot.ageMs !== null && `, fetched ${lengthOf(snapshot.ageMs)} ago`}
      </Fact>
      <Fact name="Made there">{snapshot.madeAt === null ? "—" : momentOf(snapshot.madeAt)}</Fact>
      <Fact name="Digest">
        <span className="mono">{snapshot.digest.slice(0, 16)}</span>
      </Fact>
      <Fact name="Holds">
        {countOf(snapshot.cameras, "camera")}, {countOf(snapshot.recordings, "recording")}, {sizeOf(snapshot.sizeBytes)}
      </Fact>
    </>
  )
}

const outcomes = {
  accepted: ["ok", "opened"],
  refused: ["fail", "refused"],
  unreachable: ["warn", "not reached"],
} as const

const Trials = ({ sessions }: Pick<ProtectionView, "sessions">) => {
  if (sessions.length === 0) return null
  const bad = sessions.filter(({ outcome }) => outcome !== "accepted").length
  return (
    <details>
      <summary>
        Second session of each camera ({sessions.length}){bad === 0 ? ": all opened" : `: ${bad} did not open`}
      </summary>
      <ul className="plain-list small">
        {sessions.map(({ cameraName, channelId, detail, outcome }) => (
          <li key={channelId} className="spread">
            <span>{cameraName}</span>
            <span>
              <Badge state={outcomes[outcome][0]} text={outcomes[outcome][1]} />
              {detail !== "" && <span className="muted">{detail}</span>}
            </span>
          </li>
        ))}
      </ul>
    </details>
  )
}

/** Only before it is served here: then its rings are part of the recordings. */
const Shadow = ({ one: { need, shadow, state } }: { readonly one: ProtectionView }) => {
  if (shadow === null || serves(state)) return null
  const { bytes, holdMs, leastMs, ready, streams, troubles } = shadow
  const all = streams > 0 && ready === streams
  return (
    <>
      <p className="small" role="status">
        {streams === 0 ?
          "Shadowing: nothing is recorded there." :
          all ?
          `Shadowing: ${lengthOf(holdMs)} held of each of ${countOf(streams, "camera")}` :
          `Shadowing: ${lengthOf(holdMs)} held of ${ready} of ${countOf(streams, "camera")}, ${
            lengthOf(leastMs)
          } of the one with least`}
        {streams > 0 &&
          `, ${sizeOf(bytes)} in memory of ${sizeOf(need.memoryBytes)} kept for it, ${
            megabits(need.ingestBps)
          } from its cameras.`}
      </p>
      {troubles.length > 0 && (
        <ul className="lines small">
          {troubles.map(({ cameraName, reason }) => <li key={`${cameraName} ${reason}`}>{cameraName}: {reason}</li>)}
        </ul>
      )}
    </>
  )
}

const Drill = ({ drill }: Pick<ProtectionView, "drill">) =>
  drill === null ? null : (
    <p className="small">
      Last drill {momentOf(drill.at)}: {drill.gapMs === null ?
        "no key frame of every channel came" :
        `gap ${lengthOf(drill.gapMs)}`}, {countOf(drill.channels, "channel")}.
    </p>
  )

const dangerous: ReadonlySet<Deed> = new Set(["release", "takeover", "failbackWithout", "discard"])

/** What the state allows; the node judges anew. */
const deedsOf = (one: ProtectionView): ReadonlyArray<readonly [deed: Deed, name: string]> => {
  if (one.state === "released") return []
  const serving = serves(one.state)
  const ready = one.state !== "pendingGrant" && one.snapshot.digest !== null
  return [
    ...(ready && !serving ? [["takeover", "Take over"], ["drill", "Drill"]] as const : []),
    ...(serving && !one.control ? [["takeover", "Take control"]] as const : []),
    ...(serving ? [["failback", "Fail back"]] as const : []),
    // Where the changes hold it up, or may.
    ...(serving && one.refusals > 0 && one.changes !== 0 ?
      [["failbackWithout", "Fail back without changes"]] as const :
      []),
    ...(!serving && one.changes !== null && one.changes > 0 ? [["discard", "Discard changes"]] as const : []),
    ...(one.state === "pendingGrant" ? [] : [["snapshot", "Refresh"]] as const),
    ["release", "Release"],
  ]
}

const Protection = ({ allowed, one, onDeed }: {
  readonly one: ProtectionView
  readonly allowed: boolean
  readonly onDeed: (deed: Deed) => void
}) => {
  const [tone, words] = protectionWords[one.state]
  return (
    <section className="panel stack protection" aria-label={`Protection of ${one.name}`}>
      <div className="spread">
        <strong>{one.name}</strong>
        <Badge state={tone} text={words} />
      </div>
      {one.state === "pendingGrant" && (
        <p className="small">
          The administrator of {one.name} allows it on the page of failover there; its configuration comes then.
        </p>
      )}
      <Why reason={one.reason} />
      {one.short.length > 0 && <ul className="lines small">{one.short.map((line) => <li key={line}>{line}</li>)}</ul>}
      <dl className="details small">
        {one.sources.protection === "default" && <Fact name="Registered">by itself, as members guard each other</Fact>}
        <Fact name="Class">
          {classWords[one.class][0]}
          {one.sources.protection === "default" &&
            (one.sources.class === "set" ? ", as set on that node" : ", by default")}
        </Fact>
        <Fact name="Takes over">
          {one.automatic ? "by itself" : "when told"}, {one.rank === 0 ? "first in turn" : `rank ${one.rank}`}
          {one.sources.rank === "computed" && ", by capacity and order of nodes"}
        </Fact>
        <Fact name="Epoch">{one.epoch}</Fact>
        <Fact name="Since">{momentOf(one.since)}</Fact>
        <Fact name="Last heard">{one.silenceMs === null ? "not yet" : `${lengthOf(one.silenceMs)} ago`}</Fact>
        {serves(one.state) && <Fact name="Control of cameras">{one.control ? "here" : "not here"}</Fact>}
        {one.changes !== null && one.changes > 0 && (
          <Fact name="Changed here">{countOf(one.changes, "change")} to go home with the failback</Fact>
        )}
        <Snapshot snapshot={one.snapshot} />
      </dl>
      <Shadow one={one} />
      <Trials sessions={one.sessions} />
      <Drill drill={one.drill} />
      {allowed && (
        <div className="actions">
          {deedsOf(one).map(([deed, name]) => (
            <button
              key={deed}
              type="button"
              className={dangerous.has(deed) ? "danger" : ""}
              onClick={() => onDeed(deed)}
            >
              {name}
            </button>
          ))}
        </div>
      )}
    </section>
  )
}

export const Protections = ({ allowed, onDeed, protections }: {
  readonly protections: ReadonlyArray<ProtectionView>
  readonly allowed: boolean
  readonly onDeed: (one: ProtectionView, deed: Deed) => void
}) => (
  <div className="cards">
    {protections.map((one) => (
      <Protection
        key={one.id}
        one={one}
        allowed={allowed}
        onDeed={(deed) => onDeed(one, deed)}
      />
    ))}
  </div>
)
