/** The node: its name and version, storage folders with what is left, how each component is. */
import type { StoragePartition } from "#schema/record-config.ts"
import { listFolders, nodeHealth } from "../api.ts"
import { Badge, Loading, Problem, Why } from "../parts/notes.tsx"
import { percentOf, sizeOf } from "../time.ts"
import { useQuery } from "../use-query.ts"

const names: Readonly<Record<string, string>> = {
  "postgresql:responseTime": "Database",
  "storage:folders": "Storage folders",
  "capture:streams": "Streams from cameras",
}

const advice: Readonly<Record<string, string>> = {
  full:
    "Its reserve of free space is reached. The oldest footage is deleted to make room; shorten how long footage is kept, or add a folder.",
  readOnly:
    "Nothing can be written. Look at the disk and how it is mounted; recording goes on by itself once it is writable.",
  missing: "The folder is not there. Mount the disk again; recording goes on by itself.",
  slow: "The disk takes longer to write than footage arrives. Look at its health and at what else uses it.",
  error: "The disk reports errors. Look at its health, and replace it if they stay.",
}

/** What is wrong with a component, a line each. */
const outputsOf = (output: string | undefined): ReadonlyArray<string> => [
  ...new Set((output ?? "").split("; ").filter((one) => one !== "")),
]

const Folder = ({ folder }: { readonly folder: StoragePartition }) => {
  const { floorBytes, freeBytes, totalBytes, usedBytes } = folder
  const share = (bytes: number) => totalBytes === 0 ? 0 : Math.max(0, bytes / totalBytes * 100)
  const other = Math.max(0, totalBytes - freeBytes - usedBytes)
  const tone = folder.state !== "ok" ? "bad" : freeBytes < 2 * floorBytes ? "warn" : ""
  return (
    <div className="stack">
      <div className="spread">
        <span className="row">
          <strong>{folder.name}</strong>
          <Badge state={folder.state} text={folder.state === "ok" ? "in order" : undefined} />
        </span>
        <span className="small muted mono cut">{folder.path}</span>
      </div>
      <div
        className={`meter ${tone}`}
        role="img"
        aria-label={`Footage ${percentOf(usedBytes, totalBytes)}, other files ${
          percentOf(other, totalBytes)
        } of the disk`}
      >
        <i style={{ width: `${share(usedBytes)}%`, minWidth: usedBytes > 0 ? 3 : 0 }} />
        <i className="other" style={{ width: `${share(other)}%` }} />
        <i className="reserve" style={{ width: `${share(Math.min(floorBytes, freeBytes))}%` }} />
      </div>
      <div className="facts">
        <span>
          <b>{sizeOf(usedBytes)}</b> footage
        </span>
        <span>
          <b>{sizeOf(Math.max(0, freeBytes - floorBytes))}</b> for more footage
        </span>
        <span>
          <b>{sizeOf(floorBytes)}</b> always kept free
        </span>
        <span>
          <b>{sizeOf(totalBytes)}</b> in all
        </span>
      </div>
      {folder.detail !== "" && <p className="small">{folder.detail}</p>}
      {advice[folder.state] !== undefined && <p className="small muted">{advice[folder.state]}</p>}
    </div>
  )
}

export const SystemPage = () => {
  const folders = useQuery("folders", listFolders, 10_000)
  const health = useQuery("health", nodeHealth, 5000)
  const node = health.data
  return (
    <>
      <div className="head">
        <h1>System</h1>
        {node !== null && <Badge state={node.status} />}
      </div>
      <Problem error={folders.error ?? health.error} />
      {node === null && health.error === null && <Loading lines={4} />}
      {node !== null && (
        <div className="stack">
          <section className="panel" aria-labelledby="node">
            <div className="title">
              <h2 id="node">Node {node.description}</h2>
              <span className="small muted">Nightjar {node.releaseId}</span>
            </div>
            <div className="checks">
              {Object.entries(node.checks).flatMap(([name, checks]) =>
                checks.map((check, index) => (
                  <div key={`${name}-${index}`}>
                    <div className="spread">
                      <span className="small muted">{names[name] ?? name}</span>
                      <Badge state={check.status} />
                    </div>
                    <b>{[check.observedValue, check.observedUnit].filter((one) => one !== undefined).join(" ")}</b>
                    {outputsOf(check.output).map((one) => <Why key={one} reason={one} />)}
                  </div>
                ))
              )}
            </div>
          </section>
          <section className="panel" aria-labelledby="storage">
            <div className="title">
              <h2 id="storage">Storage</h2>
            </div>
            <div className="stack">{folders.data?.map((folder) => <Folder key={folder.name} folder={folder} />)}</div>
          </section>
          <p className="small muted">
            <a href="/docs">Reference of the interface</a> · <a href="/openapi.json">OpenAPI document</a>
          </p>
        </div>
      )}
    </>
  )
}
