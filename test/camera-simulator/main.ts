/**
 * Simulated cameras as a process:
 *
 *   node test/camera-simulator/main.ts --port 0 --cameras 2 [--control-port 0] [--host 127.0.0.1]
 *     [--codec h264|h265] [--audio aac,pcmu,…|none] [--video FILE] [--sub FILE|none] [--auth none|basic|digest|digest-sha256|digest-both]
 *     [--username U] [--password P] [--pacing burst|spread] [--seed N] [--start-at-key]
 *     [--loudspeaker pcmu|pcma|g726|none] [--with-parent]
 *
 * Prints one line of JSON when every camera can be reached, and stops on SIGINT or SIGTERM (with `--with-parent` also when its
 * standard input ends). Lists (`--audio aac,pcmu`) are dealt to the cameras in turn.
 */
import { parseArgs } from "node:util"
import type { AudioCodec } from "./footage.ts"
import { type AuthScheme, cameraDefaults, type CameraOptions } from "./options.ts"
import { startSimulator } from "./simulator.ts"

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "0" },
    "control-port": { type: "string", default: "0" },
    host: { type: "string", default: "127.0.0.1" },
    cameras: { type: "string", default: "1" },
    codec: { type: "string", default: "h264" },
    audio: { type: "string", default: "aac" },
    video: { type: "string" },
    sub: { type: "string", default: "sub-320x180-10.h264" },
    auth: { type: "string", default: cameraDefaults.auth },
    username: { type: "string", default: cameraDefaults.username },
    password: { type: "string", default: cameraDefaults.password },
    pacing: { type: "string", default: cameraDefaults.pacing },
    seed: { type: "string", default: "1" },
    loudspeaker: { type: "string", default: cameraDefaults.loudspeaker },
    "start-at-key": { type: "boolean", default: false },
    "with-parent": { type: "boolean", default: false },
  },
})

const dealt = <A extends string>(list: string, index: number, allowed: ReadonlyArray<A>): A => {
  const all = list.split(",")
  const found = allowed.find((one) => one === all[index % all.length])
  if (found === undefined) throw new Error(`${list}: expected ${allowed.join(", ")}`)
  return found
}

const camera = (index: number): Partial<CameraOptions> => {
  const codec = dealt(values.codec, index, ["h264", "h265"])
  const audio = dealt<AudioCodec | "none">(values.audio, index, ["aac", "pcmu", "pcma", "opus", "none"])
  const main = { name: "main", video: values.video ?? `main-640x360-25.${codec}`, audio }
  const sub = { name: "sub", video: values.sub, audio: "none" as const }
  return {
    profiles: values.sub === "none" ? [main] : [main, sub],
    auth: dealt<AuthScheme>(values.auth, index, ["none", "basic", "digest", "digest-sha256", "digest-both"]),
    username: values.username,
    password: values.password,
    pacing: dealt(values.pacing, index, ["burst", "spread"]),
    startAtKey: values["start-at-key"],
    loudspeaker: dealt(values.loudspeaker, index, ["none", "pcmu", "pcma", "g726"]),
  }
}

const simulator = await startSimulator({
  cameras: Array.from({ length: Number(values.cameras) }, (_, index) => camera(index)),
  port: Number(values.port),
  controlPort: Number(values["control-port"]),
  host: values.host,
  seed: Number(values.seed),
})

const stop = (): void => {
  void simulator.close().then(() => process.exit(0))
}
process.once("SIGINT", stop)
process.once("SIGTERM", stop)
if (values["with-parent"]) process.stdin.once("end", stop).resume()

console.log(JSON.stringify({
  ready: true,
  pid: process.pid,
  control: simulator.controlUrl,
  cameras: simulator.cameras.map((one) => ({
    name: one.options.name,
    auth: one.options.auth,
    ...(one.options.auth === "none" ? {} : { username: one.options.username, password: one.options.password }),
    streams: one.mounts.map((mount) => ({ role: mount.profile, url: one.url(mount.profile) })),
  })),
}))
