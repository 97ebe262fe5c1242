/**
 * The Debian packages the slow rings of tests need: independent cameras, readers and a browser. Installs what is missing where
 * it may (root, apt-get); says aloud what stays missing where it may not. The tests that need one then skip, saying so. Without
 * what is only wished for they take longer.
 */
import { spawn, spawnSync } from "node:child_process"
import { existsSync } from "node:fs"

const packages = [
  "ca-certificates",
  "chromium",
  "curl",
  "e2fsprogs",
  "ffmpeg",
  "gir1.2-gst-rtsp-server-1.0",
  "gir1.2-gstreamer-1.0",
  "gstreamer1.0-libav",
  "gstreamer1.0-plugins-bad",
  "gstreamer1.0-plugins-base",
  "gstreamer1.0-plugins-good",
  "gstreamer1.0-plugins-ugly",
  "gstreamer1.0-rtsp",
  "gstreamer1.0-tools",
  "iproute2",
  "libgstrtspserver-1.0-0",
  "procps",
  "python3-gi",
  "vlc-bin",
  "vlc-plugin-base",
] as const

/** Not every Debian has them. */
const wished = ["chromium-headless-shell"] as const

const installed = (name: string): boolean => {
  const answer = spawnSync("dpkg-query", ["-W", "-f", "${db:Status-Status}", name], { encoding: "utf8" })
  return answer.status === 0 && answer.stdout === "installed"
}

const aptGet = (args: ReadonlyArray<string>): Promise<boolean> =>
  new Promise((resolve) => {
    const child = spawn("apt-get", [...args], {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    })
    child.once("error", () => resolve(false))
    child.once("close", (code) => resolve(code === 0))
  })

/** Names of the packages that are still missing afterwards. */
export const installTestPackages = async (): Promise<ReadonlyArray<string>> => {
  if (!existsSync("/usr/bin/dpkg-query")) {
    console.log(
      "test packages: no Debian here; tests that need ffmpeg, GStreamer or Chromium look for them and skip, saying so",
    )
    return packages
  }
  const missing = packages.filter((name) => !installed(name))
  const absent = wished.filter((name) => !installed(name))
  if (missing.length === 0 && absent.length === 0) return []
  if (process.getuid?.() !== 0) {
    console.log(`test packages: not root, so not installed: ${[...missing, ...absent].join(" ")}`)
    return missing
  }
  console.log(`test packages: installing ${[...missing, ...absent].join(" ")}`)
  await aptGet(["update", "-qq"])
  const install = (names: ReadonlyArray<string>) =>
    aptGet(["install", "-y", "-qq", "--no-install-recommends", ...names])
  // One that a Debian does not have would keep it from installing any.
  if (!await install([...missing, ...absent]) && missing.length > 0) await install(missing)
  const still = packages.filter((name) => !installed(name))
  if (still.length > 0) console.log(`test packages: could not be installed: ${still.join(" ")}`)
  return still
}
