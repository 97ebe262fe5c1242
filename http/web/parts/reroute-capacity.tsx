/** What this node carries, what it keeps room for, and what would not fit if all it guards failed together. */
import type { FailoverStatus, ProtectionView } from "#schema/federation-failover.ts"
import { megabits, sizeOf } from "../time.ts"

interface BarProps {
  readonly name: string
  readonly used: number
  readonly reserved: number
  readonly total: number
  readonly words: (value: number) => string
}

const Bar = ({ name, reserved, total, used, words }: BarProps) => {
  const whole = Math.max(total, used + reserved, 1)
  const full = used + reserved > total
  return (
    <div>
      <div className="spread small">
        <strong>{name}</strong>
        <span className="number">{full ? "does not fit" : `${words(total - used - reserved)} left`}</span>
      </div>
      <div className={`meter ${full ? "bad" : ""}`} aria-hidden="true">
        <i style={{ width: `${used / whole * 100}%` }} />
        <i className="other" style={{ width: `${reserved / whole * 100}%` }} />
      </div>
      <p className="small muted number">
        {words(used)} used, {words(reserved)} kept for others, of {words(total)}
      </p>
    </div>
  )
}

const shortName = (protections: ReadonlyArray<ProtectionView>, id: string): string =>
  protections.find((one) => one.id === id)?.name ?? "a node"

export const Capacity = ({ protections, status }: {
  readonly status: FailoverStatus
  readonly protections: ReadonlyArray<ProtectionView>
}) => {
  const { capacity: { reserved, total, used }, wouldNotFit } = status
  return (
    <section className="panel stack" aria-labelledby="capacity">
      <h2 id="capacity">Room on this node</h2>
      <div className="capacity">
        <Bar
          name="Cameras"
          used={used.cameras}
          reserved={reserved.cameras}
          total={total.cameras}
          words={String}
        />
        <Bar
          name="Ingest"
          used={used.ingestBps}
          reserved={reserved.ingestBps}
          total={total.ingestBps}
          words={megabits}
        />
        <Bar
          name="Disk writes"
          used={used.diskBytesPerSecond}
          reserved={reserved.diskBytesPerSecond}
          total={total.diskBytesPerSecond}
          words={(value) => `${sizeOf(value)}/s`}
        />
        <Bar
          name="Disk space for outages"
          used={used.diskBytes}
          reserved={reserved.diskBytes}
          total={total.diskFreeBytes}
          words={sizeOf}
        />
        <Bar
          name="Memory for shadowed cameras"
          used={used.memoryBytes}
          reserved={reserved.memoryBytes}
          total={total.memoryBytes}
          words={sizeOf}
        />
      </div>
      {wouldNotFit.length > 0 && (
        <div className="outcome bad" role="note">
          <strong>Would not fit if all of them failed together</strong>
          <ul className="lines small">
            {wouldNotFit.map(({ protectionId, short }) => (
              <li key={protectionId}>{shortName(protections, protectionId)}: {short.join("; ")}</li>
            ))}
          </ul>
        </div>
      )}
    </section>
  )
}
