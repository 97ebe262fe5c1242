/**
 * Live pictures in Chromium by WHEP and by low-latency HLS: first picture, and camera to screen by the picture's own clock; then viewers who do
 * harm: one that reads a byte a second, half-open connections, malformed SDP, RTP and RTSP, and what is recorded meanwhile:
 * `npm run prove:live -- [--pictures 10] [--seconds 30] [--hostile 60] [--half-open 500]`.
 */
import { parseArgs } from "node:util"
import { proveLive } from "../harness/live-proof.ts"
import { prove } from "../harness/report.ts"

const { values } = parseArgs({
  options: {
    pictures: { type: "string", default: "10" },
    seconds: { type: "string", default: "30" },
    hostile: { type: "string", default: "60" },
    "half-open": { type: "string", default: "500" },
  },
})

await prove("prove:live", (report) =>
  proveLive(report, {
    firstPictures: Number(values.pictures),
    watchSeconds: Number(values.seconds),
    hostileSeconds: Number(values.hostile),
    halfOpen: Number(values["half-open"]),
    patient: true,
  }))
