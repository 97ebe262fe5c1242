/** Which foreign programs are there. A test that needs one that is not skips, and says so. */
import { spawnSync } from "node:child_process"

const works = (command: string, args: ReadonlyArray<string>): boolean =>
  spawnSync(command, [...args], { stdio: "ignore" }).status === 0

const checks = {
  ffmpeg: () => works("ffmpeg", ["-version"]) && works("ffprobe", ["-version"]),
  gstreamer: () => works("gst-launch-1.0", ["--version"]),
  gstRtspServer: () =>
    works("/usr/bin/python3", [
      "-c",
      "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer",
    ]),
  vlc: () => process.platform === "linux" && works("/usr/bin/dpkg-query", ["-W", "vlc-bin", "vlc-plugin-base"]),
} as const

export type Program = keyof typeof checks

const known = new Map<Program, boolean>()

/** Programs of the list that are missing here; prints why tests skip, once a program. */
export const missing = (...programs: ReadonlyArray<Program>): ReadonlyArray<Program> =>
  programs.filter((program) => {
    const before = known.get(program)
    const there = before ?? checks[program]()
    if (before === undefined && !there) process.stderr.write(`skipping what needs ${program}: it is not installed\n`)
    known.set(program, there)
    return !there
  })
