/** Work on many cameras: how far it is, and what became of each. It goes on without this page. */
import { type CameraJob, CameraJobId, type CameraJobItem } from "#schema/camera-job.ts"
import { Option, Schema } from "effect"
import { jobItemsOf, jobOf } from "../api-camera-job.ts"
import { Outcomes } from "../parts/camera-outcomes.tsx"
import { Icon } from "../parts/icons.tsx"
import { Empty, Loading, Problem } from "../parts/notes.tsx"
import { momentOf } from "../time.ts"
import { useQuery } from "../use-query.ts"

const askEveryMs = 1_000
/** More than that are read once all is done: reading ten thousand over and over would take longer than the work. */
const mostWatched = 500

const asJob = Schema.decodeUnknownOption(CameraJobId)
const totalOf = ({ counts }: CameraJob): number => Object.values(counts).reduce((sum, count) => sum + count, 0)

const Told = ({ job }: { readonly job: CameraJob }) => {
  const total = totalOf(job)
  const done = total - job.counts.waiting
  const begun = `Begun ${momentOf(job.createdAt)}`
  return (
    <section className="panel stack" aria-label="Progress">
      <h2>
        {job.state === "running" ?
          `${done} of ${total} done` :
          `Done: ${job.counts.added} of ${total} ${job.counts.added === 1 ? "was" : "were"} added`}
      </h2>
      <progress aria-label="Cameras done" max={1} value={job.progress} />
      <p className="small muted" role="status">
        {job.state === "running" ?
          `${begun}. It goes on when you leave this page, and after a restart of the recorder.` :
          `${begun}, ended ${momentOf(job.finishedAt ?? job.createdAt)}.`}
      </p>
      <Problem error={job.error} />
    </section>
  )
}

const Items = ({ job }: { readonly job: CameraJob }) => {
  const over = job.state === "done"
  const watched = over || totalOf(job) <= mostWatched
  const items = useQuery<ReadonlyArray<CameraJobItem>>(
    `job items ${job.id}`,
    () => jobItemsOf(job.id),
    over ? 0 : askEveryMs,
    watched,
  )
  if (!watched) return <p className="muted">What became of each camera is listed here once all is done.</p>
  if (items.data === null) return items.error === null ? <Loading lines={4} /> : <Problem error={items.error} />
  return (
    <div className="panel">
      <Outcomes label="Cameras of this job" items={items.data} />
    </div>
  )
}

const Found = ({ id }: { readonly id: CameraJobId }) => {
  const first = useQuery(`job ${id}`, () => jobOf(id), askEveryMs)
  if (first.data !== null) {
    return (
      <div className="wizard-step">
        <Told job={first.data} />
        <Problem error={first.error} />
        <Items key={first.data.state} job={first.data} />
        <div className="actions">
          <a className="button" href="#/cameras">All cameras</a>
        </div>
      </div>
    )
  }
  if (first.error === null) return <Loading lines={4} />
  return (
    <Empty icon="list" title="This work is not known (any more)">
      <Problem error={first.error} />
      <a className="button" href="#/cameras">All cameras</a>
    </Empty>
  )
}

export const CameraJobPage = ({ id }: { readonly id: string | null }) => {
  const job = Option.getOrNull(asJob(id))
  return (
    <div className="wizard">
      <div className="head">
        <div className="named">
          <a className="small" href="#/cameras">
            <Icon name="left" />Cameras
          </a>
          <h1>Work on cameras</h1>
        </div>
      </div>
      {job === null ?
        (
          <Empty icon="list" title="No work to show">
            <p>Cameras that are imported or added together are worked through here, one after the other.</p>
            <a className="button" href="#/cameras/import">Import cameras</a>
          </Empty>
        ) :
        <Found key={job} id={job} />}
    </div>
  )
}
