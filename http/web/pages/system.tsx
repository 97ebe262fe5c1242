/** The node: storage folders with what is left, and how each component is. */
import { listFolders, nodeHealth } from "../api.ts"
import { Badge, Problem } from "../parts/notes.tsx"
import { sizeOf } from "../time.ts"
import { useQuery } from "../use-query.ts"

export const SystemPage = () => {
  const folders = useQuery("folders", listFolders, 10_000)
  const health = useQuery("health", nodeHealth, 5000)
  return (
    <>
      <div className="head">
        <h1>System</h1>
        {health.data !== null && <Badge state={health.data.status} />}
      </div>
      <Problem error={folders.error ?? health.error} />
      <div className="stack">
        <section className="panel" aria-label="Storage">
          <h2>Storage</h2>
          <div className="stack">
            {folders.data?.map((folder) => {
              const used = folder.totalBytes === 0 ? 0 : 1 - folder.freeBytes / folder.totalBytes
              const tone = folder.state !== "ok" ? "bad" : used > 0.9 ? "warn" : ""
              return (
                <div key={folder.name}>
                  <div className="spread">
                    <span className="row">
                      <strong>{folder.name}</strong>
                      <Badge state={folder.state} />
                      <span className="small muted mono">{folder.path}</span>
                    </span>
                    <span className="small muted">
                      {sizeOf(folder.usedBytes)} of footage, {sizeOf(folder.freeBytes)} of {sizeOf(folder.totalBytes)}
                      {" "}
                      free, {sizeOf(folder.floorBytes)} kept free
                    </span>
                  </div>
                  <div
                    className={`meter ${tone}`}
                    role="img"
                    aria-label={`${Math.round(used * 100)} percent of the disk used`}
                  >
                    <i style={{ width: `${used * 100}%` }} />
                  </div>
                  {folder.detail !== "" && <p className="small muted">{folder.detail}</p>}
                </div>
              )
            })}
          </div>
        </section>
        <section className="panel table-wrap" aria-label="Components">
          <h2>Components</h2>
          <table>
            <thead>
              <tr>
                <th scope="col">Component</th>
                <th scope="col">State</th>
                <th scope="col">Reading</th>
              </tr>
            </thead>
            <tbody>
              {Object.entries(health.data?.checks ?? {}).flatMap(([name, checks]) =>
                checks.map((check, index) => (
                  <tr key={`${name}-${index}`}>
                    <td>{name}</td>
                    <td>
                      <Badge state={check.status} />
                    </td>
                    <td className="small">
                      {[check.observedValue, check.observedUnit, check.output].filter((one) =>
                        one !== undefined && one !== ""
                      ).join(" ")}
                    </td>
                  </tr>
                ))
              )}
            </tbody>
          </table>
        </section>
        <p className="small muted">
          <a href="/docs">Reference of the interface</a> · <a href="/openapi.json">OpenAPI document</a>
        </p>
      </div>
    </>
  )
}
