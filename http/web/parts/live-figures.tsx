/** How a live picture comes and how well, read once a second while it is shown. */
import { useEffect, useState } from "react"
import type { LivePlayer } from "../stream-player.ts"
import type { Figures, WayName } from "../stream-way.ts"

const wayNames: Readonly<Record<WayName, string>> = {
  webrtc: "WebRTC",
  hls: "HLS",
  stills: "still pictures",
}

const lineOf = (value: number | null, text: (known: number) => string): string => value === null ? "—" : text(value)

const bits = (perSecond: number): string =>
  perSecond >= 1e6 ? `${(perSecond / 1e6).toFixed(2)} Mbit/s` : `${Math.round(perSecond / 1000)} kbit/s`

const length = (ms: number): string => ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`

const rowsOf = (figures: Figures): ReadonlyArray<readonly [string, string]> => [
  ["Size", figures.width === 0 ? "—" : `${figures.width} × ${figures.height}`],
  ["Pictures", lineOf(figures.rate, (rate) => `${rate.toFixed(1)} a second`)],
  ["Bit rate", lineOf(figures.bitsPerSecond, bits)],
  ["Latency", lineOf(figures.latencyMs, length)],
  ["Lost packets", lineOf(figures.lost, String)],
  ["Dropped", lineOf(figures.dropped, String)],
]

export const LiveFigures = ({ player, reason, way }: {
  readonly player: () => LivePlayer | null
  readonly way: WayName
  readonly reason: string
}) => {
  const [figures, setFigures] = useState<Figures | null>(null)
  useEffect(() => {
    let alive = true
    const read = () => void player()?.figures().then((now) => alive && setFigures(now))
    read()
    const timer = window.setInterval(read, 1000)
    return () => {
      alive = false
      window.clearInterval(timer)
    }
  }, [player])
  return (
    <dl className="figures" aria-label="Statistics">
      {[["Way", wayNames[way]] as const, ...(figures === null ? [] : rowsOf(figures))].map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
      {reason !== "" && (
        <div className="reason-line">
          <dt className="visually-hidden">Why</dt>
          <dd>{reason}</dd>
        </div>
      )}
    </dl>
  )
}
