/** Who guards this node or asks to. */
import type { Guardian } from "#schema/federation-failover.ts"
import { momentOf } from "../time.ts"
import { Badge } from "./notes.tsx"

export const Guardians = ({ allowed, guardians, onAsk }: {
  readonly guardians: ReadonlyArray<Guardian>
  readonly allowed: boolean
  readonly onAsk: (guardian: Guardian) => void
}) => (
  <section className="panel stack" aria-labelledby="guardians">
    <h2 id="guardians">Guardians of this node</h2>
    <ul className="plain-list">
      {guardians.map((one) => (
        <li key={one.nodeId} aria-label={one.name}>
          <div className="spread">
            <div className="grow">
              <strong>{one.name}</strong>{" "}
              <Badge state={one.granted ? "ok" : "warn"} text={one.granted ? "allowed" : "not allowed"} />
              <div className="facts">
                <span>{one.granted ? "guards" : "asked"} since {momentOf(one.askedAt)}</span>
                {one.bundleAt !== null && <span>got the configuration {momentOf(one.bundleAt)}</span>}
                {one.bundleDigest !== null && <span className="mono">{one.bundleDigest.slice(0, 16)}</span>}
              </div>
            </div>
            {allowed && (
              <button type="button" className={one.granted ? "danger" : "primary"} onClick={() => onAsk(one)}>
                {one.granted ? "Withdraw" : "Allow"}
              </button>
            )}
          </div>
          {one.passwordsToChange.length > 0 && (
            <p className="small">
              It knows the passwords of {one.passwordsToChange.join(", ")}: change them.
            </p>
          )}
        </li>
      ))}
    </ul>
  </section>
)
