/** Reroutes, newest first: phase, measured gap, how far the footage is home; and what happened, as a log. */
import type { NodeId } from "#schema/common.ts"
import type { ProtectionView, Reroute } from "#schema/federation-failover.ts"
import type { RecordBackJob } from "#schema/federation-recordback.ts"
import { titleOf } from "../event-words.ts"
import { countOf, eventWords, recordBackWords, rerouteWords } from "../reroute-words.ts"
import { lengthOf, megabits, momentOf, percentOf, sizeOf } from "../time.ts"
import type { EventLog } from "../use-reroutes.ts"
import { Badge, Why } from "./notes.tsx"
import { SeverityIcon } from "./severity.tsx"

export type Verb = "pause" | "resume" | "retry"
const verbWords: Readonly<Record<Verb, string>> = { pause: "Pause", resume: "Resume", retry: "Try again" }

/** What the state of a job allows; the node judges anew. */
const verbsOf = ({ state }: RecordBackJob): ReadonlyArray<Verb> => {
  if (state === "done") return []
  if (state === "paused") return ["resume"]
  if (state === "failed" || state === "partial") return ["retry"]
  return state === "retryWait" ? ["retry", "pause"] : ["pause"]
}

const RecordBack = ({ job, name, reroute: { recordBack: progress } }: {
  readonly name: string
  readonly reroute: Reroute
  readonly job: RecordBackJob | undefined
}) => {
  const [tone, words] = recordBackWords[progress.state]
  return (
    <div>
      <div className="spread small">
        <span>
          Record-back <Badge state={tone} text={words} />
        </span>
        <span className="number">
          {progress.segmentsDone} of {progress.segmentsTotal} segments, {sizeOf(progress.bytesDone)} of{" "}
          {sizeOf(progress.bytesTotal)} ({percentOf(progress.bytesDone, progress.bytesTotal)})
        </span>
      </div>
      <progress
        aria-label={`Footage of ${name} that is home`}
        max={Math.max(1, progress.bytesTotal)}
        value={progress.bytesDone}
      />
      <div className="facts">
        {progress.rateBps !== null && <span>{megabits(progress.rateBps)}</span>}
        {progress.estimatedEnd !== null && <span>done about {momentOf(progress.estimatedEnd)}</span>}
        {job !== undefined && job.attempt > 1 && <span>attempt {job.attempt}</span>}
        {job !== undefined && job.nextAttemptAt !== null && <span>goes on {momentOf(job.nextAttemptAt)}</span>}
      </div>
      <Why reason={progress.reason} />
    </div>
  )
}

const Gaps = ({ names, reroute }: { readonly reroute: Reroute; readonly names: ReadonlyMap<string, string> }) =>
  reroute.gaps.length === 0 ? null : (
    <details>
      <summary>Gap of each channel</summary>
      <ul className="plain-list small">
        {reroute.gaps.map(({ channelId, gapMs }) => (
          <li key={channelId} className="spread">
            <span className="grow cut">{names.get(channelId) ?? channelId}</span>
            <span className="number">{gapMs === null ? "no key frame yet" : lengthOf(gapMs)}</span>
          </li>
        ))}
      </ul>
    </details>
  )

interface Props {
  readonly reroutes: ReadonlyArray<Reroute>
  readonly jobs: ReadonlyArray<RecordBackJob>
  readonly protections: ReadonlyArray<ProtectionView>
  readonly names: ReadonlyMap<NodeId, string>
  readonly allowed: boolean
  readonly onSteer: (job: RecordBackJob, verb: Verb) => void
}

export const Reroutes = ({ allowed, jobs, names, onSteer, protections, reroutes }: Props) => {
  const cameras = new Map(
    protections.flatMap(({ sessions }) =>
      sessions.map(({ cameraName, channelId }): [string, string] => [channelId, cameraName])
    ),
  )
  return (
    <section className="panel stack" aria-labelledby="reroutes">
      <h2 id="reroutes">Reroutes</h2>
      {reroutes.length === 0 && (
        <p className="muted">No node was served by another yet. A drill shows how long that would take.</p>
      )}
      <ul className="plain-list">
        {reroutes.map((one) => {
          const [tone, words] = rerouteWords[one.state]
          const job = jobs.find(({ id }) => id === one.id)
          const name = names.get(one.homeNodeId) ?? "A node"
          return (
            <li key={one.id} className="stack reroute">
              <div className="spread">
                <strong>{name}{one.drill && ", drill"}</strong>
                <Badge state={tone} text={words} />
              </div>
              <div className="facts">
                <span>
                  {momentOf(one.since)}
                  {one.endedAt !== null && ` for ${lengthOf(one.endedAt - one.since)}`}
                </span>
                <span>served by {names.get(one.servingNodeId) ?? one.servingNodeId}</span>
                <span>epoch {one.epoch}</span>
                <span>
                  gap <b>{one.gapMs === null ? "not measured yet" : lengthOf(one.gapMs)}</b>
                </span>
                <span>{countOf(one.channels.length, "channel")}</span>
              </div>
              {one.held !== null && (
                <Why
                  reason={one.held.refusals === 0 ?
                    one.held.reason :
                    `The failback failed ${countOf(one.held.refusals, "time")} and is tried again: ${one.held.reason}`}
                />
              )}
              <Gaps reroute={one} names={cameras} />
              {(job !== undefined || one.recordBack.segmentsTotal > 0) && (
                <RecordBack reroute={one} job={job} name={name} />
              )}
              {allowed && job !== undefined && verbsOf(job).length > 0 && (
                <div className="actions">
                  {verbsOf(job).map((verb) => (
                    <button
                      key={verb}
                      type="button"
                      onClick={() => onSteer(job, verb)}
                    >
                      {verbWords[verb]}
                    </button>
                  ))}
                </div>
              )}
            </li>
          )
        })}
      </ul>
    </section>
  )
}

const states: Readonly<Record<EventLog["state"], string>> = {
  connecting: "The log is being read.",
  open: "",
  lost: "The live connection is interrupted; it is taken up again.",
  refused: "The log of events is not for this account.",
}

export const RerouteLog = ({ log: { events, state } }: { readonly log: EventLog }) => (
  <section className="panel stack" aria-labelledby="log">
    <h2 id="log">What happened</h2>
    {states[state] !== "" && <p className="small muted" role="status">{states[state]}</p>}
    {events.length === 0 && state === "open" && <p className="muted">Nothing yet.</p>}
    {events.length > 0 && (
      <ul className="plain-list notifications event-log" tabIndex={0} aria-labelledby="log">
        {events.map((event) => (
          <li key={event.id} className="notification">
            <SeverityIcon severity={event.severity} />
            <div className="grow">
              <strong>{titleOf(event.type)}</strong>
              <div className="small">{eventWords(event)}</div>
              <div className="small muted number">{momentOf(event.time)}</div>
            </div>
          </li>
        ))}
      </ul>
    )}
  </section>
)
